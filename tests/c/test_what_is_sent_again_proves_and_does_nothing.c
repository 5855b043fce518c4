/* Somebody has recorded all bytes of a connection. A handshake that is sent
 * again proves nothing, in either direction; of frames, those that may not
 * come twice cut off who sends them twice. A neighbour's put still arrives.
 */
#include "raw.h"

static uint8_t memory[1000], payload[1000];

/* m1 and m3 of a connection that was proven, on another. */
static void dialler_again (struct end *end, const struct raw *recorded)
{
    int fd = raw_connect (end, NULL);
    uint8_t m2[PTL_M2_BYTES], m4[PTL_M4_BYTES];

    CHECK (raw_give (end, fd, recorded->m1, PTL_M1_BYTES));
    CHECK (raw_take (end, fd, m2, PTL_M2_BYTES));
    CHECK (raw_give (end, fd, recorded->m3, PTL_M3_BYTES));
    CHECK (raw_take (end, fd, m4, PTL_M4_BYTES));
    CHECK (m4[5] == PTL_CODE_WRONG_KEY);
    CHECK (!raw_take (end, fd, m4, 1));
    close (fd);
}

static int listen_somewhere (ptl_process_t *id)
{
    struct sockaddr_in in = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl (LOOPBACK),
    };
    socklen_t size = sizeof (in);
    int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK (fd >= 0 && bind (fd, (struct sockaddr *)&in, sizeof (in)) == 0);
    CHECK (listen (fd, 4) == 0);
    CHECK (getsockname (fd, (struct sockaddr *)&in, &size) == 0);
    id->phys.nid = LOOPBACK;
    id->phys.pid = ntohs (in.sin_port);
    return fd;
}

/* m2 and m4 that another had from `neighbour`, to who dials us. */
static void listener_again (struct end *end, ptl_handle_md_t md)
{
    ptl_process_t id;
    int listener = listen_somewhere (&id), fd;
    uint8_t m1[PTL_M1_BYTES], m2[PTL_M2_BYTES];
    struct ptl_hello hello = {
        .version_min = PTL_VERSION_MIN,
        .version_max = PTL_VERSION_MAX,
        .version = PTL_VERSION_MAX,
        .key_kind = PTLX_KEY_PARTITION,
        .nid = LOOPBACK,
        .incarnation = 99,
    };

    hello.pid = id.phys.pid;
    for (int round = 0; round < 2; round++) {
        end->n = 0;
        CHECK (PtlPut (md, 0, 8, PTL_NO_ACK_REQ, id, 0, 0, 0, NULL, 0)
               == PTL_OK);
        CHECK ((fd = accept (listener, NULL, NULL)) >= 0);
        CHECK (raw_take (end, fd, m1, PTL_M1_BYTES));
        if (round == 0) { /* rightly made */
            ptl_auth_put_hello (2, &hello, m2);
            ptl_auth_listener_tag (test_key, m1, m2, m2 + PTL_HELLO_BYTES);
        }
        CHECK (raw_give (end, fd, m2, PTL_M2_BYTES));
        CHECK (raw_take (end, fd, m1, round == 0 ? 1 : 0));
        close (fd);
        pump_until (end, 1, end, PTLX_EVENT_PEER_LOST, 1);
        CHECK (event_of (end, PTLX_EVENT_PEER_LOST, 0)->reason
               == (round == 0 ? PTLX_LOSS_DIED : PTLX_LOSS_WRONG_KEY));
    }
    close (listener);
    end->n = 0;
}

static void expect_cut_off (struct raw *raw, struct end *end)
{
    struct ptl_frame frame;

    while (raw_answer (raw, end, &frame))
        CHECK (frame.type == PTL_FRAME_ACK);
    pump_until (end, 1, end, PTLX_EVENT_PEER_LOST, 1);
    CHECK (event_of (end, PTLX_EVENT_PEER_LOST, 0)->reason
           == PTLX_LOSS_MISBEHAVED);
    close (raw->fd);
    end->n = 0;
}

/* The same fragment twice; `which`: of three. */
static void fragment_again (struct end *end, uint32_t which)
{
    struct raw raw = raw_open (end, RAW_PID, 10 + which, NULL);
    struct ptl_frame part = raw_put (0, 100, PTL_ACK_REQ);

    part.total = 300;
    for (uint32_t i = 0; i <= which; i++) {
        part.flags = (uint16_t)((i == 0 ? PTL_FLAG_FIRST : 0)
                                | (i == 2 ? PTL_FLAG_LAST : 0));
        part.fragment = i;
        part.offset = i * 100;
        CHECK (raw_frame (&raw, end, &part, payload));
    }
    raw_frame (&raw, end, &part, payload);
    expect_cut_off (&raw, end);
}

/* The ack of an operation that has ended. */
static void ack_again (struct end *end, ptl_handle_md_t md)
{
    struct raw raw = raw_open (end, RAW_PID, 20, NULL);
    ptl_process_t to = { .phys = { LOOPBACK, RAW_PID } };
    struct ptl_frame put, ack = { .type = PTL_FRAME_ACK };

    CHECK (PtlPut (md, 0, 8, PTL_ACK_REQ, to, 0, 0, 0, NULL, 0) == PTL_OK);
    CHECK (raw_answer (&raw, end, &put) && put.type == PTL_FRAME_PUT);
    CHECK (raw_take (end, raw.fd, payload, put.length));
    ack.op_index = put.op_index;
    ack.op_generation = put.op_generation;
    ack.total = put.total;
    CHECK (raw_frame (&raw, end, &ack, NULL));
    pump_until (end, 1, end, PTL_EVENT_ACK, 1);
    CHECK (raw_frame (&raw, end, &ack, NULL));
    expect_cut_off (&raw, end);
}

/* A frame of the process that had the id before. */
static void frame_of_another_life (struct end *end)
{
    struct raw raw = raw_open (end, RAW_PID, 30, NULL), old = raw;
    struct ptl_frame put = raw_put (0, 8, PTL_ACK_REQ);

    old.incarnation = 29;
    raw_frame (&old, end, &put, payload);
    expect_cut_off (&raw, end);
}

/* A whole put may well come twice: the stream is in order and loses nothing,
 * so it is another put. */
static void put_again (struct end *end)
{
    struct raw raw = raw_open (end, RAW_PID, 40, NULL);
    struct ptl_frame put = raw_put (0, 8, PTL_ACK_REQ), ack;

    for (int i = 0; i < 2; i++) {
        CHECK (raw_frame (&raw, end, &put, payload));
        CHECK (raw_answer (&raw, end, &ack) && ack.detail == PTL_NI_OK);
    }
    CHECK (count_of (end, PTL_EVENT_PUT) == 2);
    close (raw.fd);
    pump_until (end, 1, end, PTLX_EVENT_PEER_LOST, 1);
    end->n = 0;
}

int main (void)
{
    struct end ends[2], *end = &ends[0], *neighbour = &ends[1];
    struct raw recorded;
    ptl_handle_md_t md;

    end_open (end, 64);
    end_open (neighbour, 64);
    CHECK (open_table (end, 0) == 0);
    open_entry (end, 0, memory, sizeof (memory), 0, PTL_CT_NONE);
    md = bind_memory (end, payload, sizeof (payload), 0, PTL_CT_NONE);
    recorded = raw_open (end, RAW_PID, 1, NULL);
    dialler_again (end, &recorded);
    close (recorded.fd);
    dialler_again (end, &recorded);
    pump_until (ends, 1, end, PTLX_EVENT_PEER_LOST, 1);
    end->n = 0;
    listener_again (end, md);
    for (uint32_t which = 0; which < 3; which++)
        fragment_again (end, which);
    ack_again (end, md);
    frame_of_another_life (end);
    put_again (end);
    md = bind_memory (neighbour, payload, 8, 0, PTL_CT_NONE);
    CHECK (PtlPut (md, 0, 8, PTL_ACK_REQ, end->id, 0, 0, 0, NULL, 0)
           == PTL_OK);
    pump_until (ends, 2, neighbour, PTL_EVENT_ACK, 1);
    CHECK (event_of (neighbour, PTL_EVENT_ACK, 0)->ni_fail == PTL_NI_OK);
    end_close (neighbour);
    end_close (end);
    return 0;
}
