/* Ten thousand peers, or as many as this process may have descriptors for,
 * connect and say nothing more. Each costs at most 1024 bytes, with its part
 * of the table; and one of them, then another, is answered at once.
 * link: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free
 */
#include <sys/resource.h>
#include <sys/wait.h>

#include "memory.h"
#include "raw.h"

#define PEERS 10000
#define SPARE 100 /* descriptors */

static char path[64];

static int peers_possible (void)
{
    struct rlimit limit;

    CHECK (getrlimit (RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK (setrlimit (RLIMIT_NOFILE, &limit) == 0);
    if (limit.rlim_max >= PEERS + SPARE)
        return PEERS;
    printf ("%d peers only: the limit of descriptors is lower\n",
            (int)limit.rlim_max - SPARE);
    return (int)limit.rlim_max - SPARE;
}

static void exactly (int fd, void *data, size_t length)
{
    CHECK (recv (fd, data, length, MSG_WAITALL) == (ssize_t)length);
}

static int one_peer (uint32_t i)
{
    struct raw raw = { .pid = RAW_PID + i, .incarnation = i + 1 };
    struct sockaddr_un un = { .sun_family = AF_UNIX };

    strcpy (un.sun_path, path);
    raw_hello (&raw, raw.m1);
    CHECK ((raw.fd = socket (AF_UNIX, SOCK_STREAM, 0)) >= 0);
    CHECK (connect (raw.fd, (struct sockaddr *)&un, sizeof (un)) == 0);
    CHECK (send (raw.fd, raw.m1, PTL_M1_BYTES, MSG_NOSIGNAL) == PTL_M1_BYTES);
    exactly (raw.fd, raw.m2, PTL_M2_BYTES);
    ptl_auth_put_m3 (test_key, raw.m1, raw.m2, raw.m3);
    CHECK (send (raw.fd, raw.m3, PTL_M3_BYTES, MSG_NOSIGNAL) == PTL_M3_BYTES);
    exactly (raw.fd, raw.m4, PTL_M4_BYTES);
    CHECK (raw.m4[5] == PTL_CODE_READY);
    return raw.fd;
}

static void ping (int fd, uint32_t i)
{
    struct raw raw = { .fd = fd, .incarnation = i + 1 };
    struct ptl_frame frame = { .type = PTL_FRAME_PING };
    uint8_t bytes[PTL_HEADER_BYTES];

    raw_encode (&raw, &frame, NULL, bytes);
    CHECK (send (fd, bytes, sizeof (bytes), MSG_NOSIGNAL) == sizeof (bytes));
    exactly (fd, bytes, sizeof (bytes));
    CHECK (bytes[0] == PTL_FRAME_PONG);
}

/* All of them, in a process of their own: it has its own descriptors. */
static void be_peers (int n, int told)
{
    int first = one_peer (0), last = first;
    char byte;

    for (int i = 1; i < n; i++)
        last = one_peer ((uint32_t)i);
    ping (first, 0);
    ping (last, (uint32_t)n - 1);
    CHECK (read (told, &byte, 1) == 0); /* until the parent has looked */
    _exit (0);
}

struct crowd {
    const struct end *end;
    uint64_t peers, frames;
};

static bool are_there (void *context)
{
    const struct crowd *crowd = context;
    struct ptlx_counters counters;

    CHECK (PtlxCounters (crowd->end->ni, &counters) == PTL_OK);
    return counters.peers == crowd->peers
        && counters.frames_in == crowd->frames;
}

int main (void)
{
    int n = peers_possible (), told[2], status;
    struct end ends[1], *end = &ends[0];
    struct ptlx_config config = {
        .listen_pid = PTLX_NO_LISTEN,
        .unix_path = path,
        .partition_key = test_key,
        .liveness_ms = 600 * 1000, /* none is asked whether it is there */
    };
    struct crowd crowd = { end, (uint64_t)n, 2 };
    char directory[] = "/tmp/yod-idle-XXXXXX";
    size_t before;
    pid_t child;

    CHECK (mkdtemp (directory));
    snprintf (path, sizeof (path), "%s/end", directory);
    CHECK (pipe (told) == 0);
    end_open_with (end, &config, 64);
    if ((child = fork ()) == 0) {
        close (told[1]);
        be_peers (n, told[0]);
    }
    before = memory_used;
    pump (ends, 1, are_there, &crowd);
    CHECK ((memory_used - before) / (size_t)n <= 1024);
    close (told[1]);
    CHECK (waitpid (child, &status, 0) == child && status == 0);
    end_close (end);
    CHECK (rmdir (directory) == 0);
    return 0;
}
