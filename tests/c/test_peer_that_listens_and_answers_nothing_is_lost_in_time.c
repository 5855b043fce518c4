/* A peer that listens is a daemon with a loop. If its own answers are wanted, it
 * is lost when it takes every byte but answers no ping for liveness_ms: the
 * kernel also takes bytes for a stopped process. Not lost are a peer that
 * answers, one that does not listen, such as yod, and one that has not got the
 * ping yet because bytes before it are still on a slow way. Time in which this
 * end itself stood still does not count. */
#include "raw.h"

#define LIVENESS_MS 900
#define DAEMON_PID 7001 /* a port: it could be dialled */
#define LARGE (4u << 20)
#define SIP 4096

static uint8_t memory[LARGE];

static void open_end (struct end *end)
{
    struct ptlx_config config = {
        .listen_nid = LOOPBACK,
        .partition_key = test_key,
        .liveness_ms = LIVENESS_MS,
        .wants_answers = 1,
    };

    end_open_with (end, &config, 64);
}

static void wait_ms (struct end *end, int ms)
{
    struct pollfd poll_fd = { .events = POLLIN };

    CHECK (PtlxFd (end->ni, &poll_fd.fd) == PTL_OK);
    if (poll (&poll_fd, 1, ms) > 0)
        end_take (end);
}

static bool is_lost (const struct end *end)
{
    return count_of (end, PTLX_EVENT_PEER_LOST) > 0;
}

static void check_lost (const struct end *end)
{
    const struct ptlx_event *lost = event_of (end, PTLX_EVENT_PEER_LOST, 0);

    CHECK (lost->pid == DAEMON_PID && lost->reason == PTLX_LOSS_DIED
           && lost->detail == ETIME);
}

/* Pongs, if any pings have come. */
static void answer (struct raw *raw, struct end *end)
{
    struct ptl_frame frame, pong = { .type = PTL_FRAME_PONG };
    uint8_t header[PTL_HEADER_BYTES];

    while (recv (raw->fd, header, sizeof (header), MSG_DONTWAIT | MSG_PEEK)
           == sizeof (header)) {
        CHECK (raw_answer (raw, end, &frame));
        if (frame.type == PTL_FRAME_PING)
            CHECK (raw_frame (raw, end, &pong, NULL));
    }
}

static void check_silent (bool listens)
{
    struct raw raw;
    struct end end;
    int64_t began, until;

    open_end (&end);
    raw = raw_open (&end, listens ? DAEMON_PID : RAW_PID, 1, NULL);
    began = now_ms ();
    until = began + (listens ? LIMIT_MS : 3 * LIVENESS_MS);
    while (!is_lost (&end) && now_ms () < until)
        wait_ms (&end, (int)(until - now_ms ()));
    CHECK (is_lost (&end) == listens);
    if (listens) {
        CHECK (now_ms () - began >= LIVENESS_MS / 2);
        check_lost (&end);
    }
    close (raw.fd);
    end_close (&end);
}

static void check_answering (void)
{
    struct raw raw;
    struct end end;
    int64_t until;

    open_end (&end);
    raw = raw_open (&end, DAEMON_PID, 1, NULL);
    for (until = now_ms () + 3 * LIVENESS_MS; now_ms () < until;) {
        wait_ms (&end, 10);
        answer (&raw, &end);
    }
    CHECK (!is_lost (&end));
    poll (NULL, 0, 3 * LIVENESS_MS / 2); /* nobody drives this end */
    raw_drive (&end);
    CHECK (!is_lost (&end));
    for (until = now_ms () + LIVENESS_MS; now_ms () < until;) {
        answer (&raw, &end);
        wait_ms (&end, 10);
    }
    CHECK (!is_lost (&end));
    close (raw.fd);
    end_close (&end);
}

/* It reads, slowly, and is lost only when it stops. */
static void check_slow_way (void)
{
    ptl_process_t target = { .phys = { LOOPBACK, DAEMON_PID } };
    ptl_handle_md_t md;
    struct raw raw;
    struct end end;
    int64_t until;

    open_end (&end);
    md = bind_memory (&end, memory, LARGE, 0, PTL_CT_NONE);
    raw_is_narrow = true;
    raw = raw_open (&end, DAEMON_PID, 1, NULL);
    raw_is_narrow = false;
    CHECK (PtlPut (md, 0, LARGE, PTL_ACK_REQ, target, 0, 0, 0, NULL, 0)
           == PTL_OK);
    for (until = now_ms () + 3 * LIVENESS_MS; now_ms () < until;) {
        wait_ms (&end, 20);
        (void)!recv (raw.fd, memory, SIP, MSG_DONTWAIT);
        CHECK (!is_lost (&end));
    }
    for (until = now_ms () + LIMIT_MS; !is_lost (&end) && now_ms () < until;)
        wait_ms (&end, (int)(until - now_ms ()));
    check_lost (&end);
    close (raw.fd);
    end_close (&end);
}

int main (void)
{
    check_silent (true);
    check_silent (false);
    check_answering ();
    check_slow_way ();
    return 0;
}
