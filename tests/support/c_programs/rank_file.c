/* Reads what a rank is given for Portals and meets the next rank at its
 * listener, without Portals. Prints rank, size, the sum of the key's bytes
 * and the rank that has called.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ptl_job.h"

static int call (const ptl_process_t *peer, uint32_t own_rank)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    int fd = socket (AF_INET, SOCK_STREAM, 0);

    at.sin_addr.s_addr = htonl (peer->phys.nid);
    at.sin_port = htons ((uint16_t)peer->phys.pid);
    if (connect (fd, (struct sockaddr *)&at, sizeof (at)) != 0)
        return -1;
    return send (fd, &own_rank, sizeof (own_rank), 0) == sizeof (own_rank)
               ? fd
               : -1;
}

static int answer (int listener, uint32_t *caller)
{
    struct pollfd wait = { .fd = listener, .events = POLLIN };
    int fd;

    if (poll (&wait, 1, 20000) != 1
        || (fd = accept (listener, NULL, NULL)) < 0)
        return -1;
    return recv (fd, caller, sizeof (*caller), MSG_WAITALL)
                   == sizeof (*caller)
               ? 0
               : -1;
}

int main (void)
{
    struct ptl_job job;
    uint32_t caller = 0;
    unsigned sum = 0;
    int rc = ptl_job_read (&job);

    PtlInit (); /* so that libportals is needed */
    if (rc == PTL_IGNORED) {
        puts ("no rank");
        return 0;
    }
    if (rc != PTL_OK || call (&job.map[(job.rank + 1) % job.size], job.rank) < 0
        || answer (job.listen_fd, &caller) != 0)
        return 1;
    for (int i = 0; i < PTLX_KEY_BYTES; i++)
        sum = sum * 31 + job.key.secret[i];
    printf ("%u %u %u %u %llu\n", job.rank, job.size, caller, sum,
            (unsigned long long)job.key.job_id);
    return 0;
}
