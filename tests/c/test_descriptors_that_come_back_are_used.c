/* An end that lacked descriptors dials few peers at a time, so that some are left
 * for those who dial it. That is over when there are enough again. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

#define SILENT 8 /* listeners that answer nobody */
#define FREE 3

static struct end end;
static int listeners[SILENT];
static uint32_t ports[SILENT];

/* Not told of its peers: others it would keep, descriptors or not. */
static void open_end (void)
{
    struct ptlx_config config = {
        .listen_nid = LOOPBACK,
        .partition_key = test_key,
        .connect_timeout_ms = 2 * LIMIT_MS,
    };

    CHECK (PtlInit () == PTL_OK);
    CHECK (PtlxNIInit (&config, &end.ni) == PTL_OK);
    CHECK (PtlEQAlloc (end.ni, 64, &end.eq) == PTL_OK);
    end.log = calloc (MAX_LOG, sizeof (*end.log));
    CHECK (end.log);
}

static void listen_silently (int i)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_addr.s_addr = htonl (LOOPBACK) };
    socklen_t length = sizeof (at);

    listeners[i] = socket (AF_INET, SOCK_STREAM, 0);
    CHECK (listeners[i] >= 0);
    CHECK (bind (listeners[i], (struct sockaddr *)&at, length) == 0);
    CHECK (listen (listeners[i], 8) == 0);
    CHECK (getsockname (listeners[i], (struct sockaddr *)&at, &length) == 0);
    ports[i] = ntohs (at.sin_port);
}

/* The limit before. */
static struct rlimit allow_few (void)
{
    struct rlimit before, limit;
    int n_free = 0;

    CHECK (getrlimit (RLIMIT_NOFILE, &before) == 0);
    limit = before;
    for (limit.rlim_cur = 0; n_free < FREE; limit.rlim_cur++)
        n_free += fcntl ((int)limit.rlim_cur, F_GETFD) < 0;
    CHECK (setrlimit (RLIMIT_NOFILE, &limit) == 0);
    return before;
}

static uint64_t n_connections (void)
{
    struct ptlx_counters counters;

    CHECK (PtlxCounters (end.ni, &counters) == PTL_OK);
    return counters.connections;
}

static bool dials_few (void *unused)
{
    (void)unused;
    return n_connections () < FREE;
}

static bool dials_all (void *unused)
{
    (void)unused;
    return n_connections () == SILENT;
}

int main (void)
{
    struct rlimit before;

    open_end ();
    for (int i = 0; i < SILENT; i++)
        listen_silently (i);
    before = allow_few ();
    for (int i = 0; i < SILENT; i++)
        CHECK (PtlxSend (end.ni, LOOPBACK, ports[i], "x", 1) == PTL_OK);
    pump (&end, 1, dials_few, NULL);
    CHECK (setrlimit (RLIMIT_NOFILE, &before) == 0);
    pump (&end, 1, dials_all, NULL);
    CHECK (PtlxNIFini (end.ni, 0) == PTL_OK);
    PtlFini ();
    free (end.log);
    for (int i = 0; i < SILENT; i++)
        close (listeners[i]);
    return 0;
}
