/* Two thousand peers are dialled at once, beside others that stay, and none
 * answers, so that all are due in one tick: each loss is told, and soon. So it
 * is the next time, which comes as soon as if nothing had been. Those that have
 * proven themselves and then are silent are all lost in their time as well. */
#include <sys/resource.h>

#include "raw.h"

#define DIALS 2000
#define STAYING 600
#define SILENT 300
#define CONNECT_MS 700
#define LIVENESS_MS 1500
#define LATE_MS 8000 /* a slow machine may tell of a loss so late */
#define FIRST_PORT 7001
#define FIRST_NID 0x7f010000u

static void raise_descriptors (void)
{
    struct rlimit limit;

    CHECK (getrlimit (RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK (limit.rlim_max >= DIALS + 2 * (STAYING + SILENT) + 100);
    CHECK (setrlimit (RLIMIT_NOFILE, &limit) == 0);
}

/* It listens at all addresses of this host, and accepts nothing. */
static uint32_t silent_port (int *fd)
{
    struct sockaddr_in in = { .sin_family = AF_INET };
    socklen_t size = sizeof (in);

    CHECK ((*fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0);
    CHECK (bind (*fd, (struct sockaddr *)&in, sizeof (in)) == 0);
    CHECK (listen (*fd, 4096) == 0);
    CHECK (getsockname (*fd, (struct sockaddr *)&in, &size) == 0);
    return ntohs (in.sin_port);
}

static void check_dials (struct end *end, uint32_t port)
{
    int64_t began = now_ms (), took;
    const struct ptlx_event *lost;

    end->n = 0;
    for (uint32_t i = 0; i < DIALS; i++)
        CHECK (PtlxSend (end->ni, FIRST_NID + i, port, "hello", 5) == PTL_OK);
    pump_until (end, 1, end, PTLX_EVENT_PEER_LOST, DIALS);
    took = now_ms () - began;
    CHECK (took >= CONNECT_MS && took <= CONNECT_MS + LATE_MS);
    lost = event_of (end, PTLX_EVENT_PEER_LOST, 0);
    CHECK (lost->reason == PTLX_LOSS_UNREACHABLE && lost->detail == ETIMEDOUT);
}

static void connect_some (struct end *end, struct raw *raws, uint32_t n,
                          uint32_t first_pid)
{
    for (uint32_t i = 0; i < n; i++)
        raws[i] = raw_open (end, first_pid + i, i + 1, NULL);
}

static void close_some (const struct raw *raws, int n)
{
    for (int i = 0; i < n; i++)
        close (raws[i].fd);
}

static void check_silent (struct end *end)
{
    static struct raw raws[SILENT];
    int64_t began;

    end->n = 0;
    connect_some (end, raws, SILENT, FIRST_PORT);
    began = now_ms ();
    pump_until (end, 1, end, PTLX_EVENT_PEER_LOST, SILENT);
    CHECK (now_ms () - began <= LIVENESS_MS + LATE_MS);
    close_some (raws, SILENT);
}

int main (void)
{
    struct ptlx_config config = {
        .listen_nid = LOOPBACK,
        .partition_key = test_key,
        .connect_timeout_ms = CONNECT_MS,
        .liveness_ms = LIVENESS_MS,
        .wants_answers = 1,
    };
    static struct raw staying[STAYING];
    struct end end;
    uint32_t port;
    int fd;

    raise_descriptors ();
    port = silent_port (&fd);
    end_open_with (&end, &config, 8192);
    connect_some (&end, staying, STAYING, RAW_PID); /* no port: never lost */
    check_dials (&end, port);
    check_dials (&end, port);
    check_silent (&end);
    close_some (staying, STAYING);
    close (fd);
    end_close (&end);
    return 0;
}
