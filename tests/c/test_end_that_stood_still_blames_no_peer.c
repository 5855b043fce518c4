/* An end that was stopped, swapped out or computing has not heard its peers for as
 * long. That is no silence of theirs: when it comes to itself and a queue lacks
 * room, the puts that have kept places in it have not been slow, whether the rest
 * of them waits in their sockets or is still to come. */
#include "raw.h"

#define SLOTS 8
#define LIVENESS_MS 800
#define FRAGMENT 64
#define FRAGMENTS 4u

static uint8_t memory[FRAGMENTS * FRAGMENT];

static void give (struct raw *raw, struct end *end, uint32_t op,
                  uint32_t number)
{
    struct ptl_frame frame = raw_put (0, FRAGMENT, PTL_NO_ACK_REQ);

    frame.flags = (uint16_t)((number == 0 ? PTL_FLAG_FIRST : 0)
                             | (number == FRAGMENTS - 1 ? PTL_FLAG_LAST : 0));
    frame.total = sizeof (memory);
    frame.op_index = op;
    frame.fragment = number;
    frame.offset = number * FRAGMENT;
    CHECK (raw_frame (raw, end, &frame, memory));
}

static void give_all (struct raw *raw, struct end *end, uint32_t from,
                      uint32_t to)
{
    for (uint32_t number = from; number < to; number++)
        for (uint32_t op = 0; op < SLOTS; op++)
            give (raw, end, op, number);
}

/* Nobody drives the end, though its deadlines come. */
static void stand_still (void)
{
    int64_t until = now_ms () + 3 * LIVENESS_MS / 2;

    while (now_ms () < until)
        poll (NULL, 0, (int)(until - now_ms ()));
}

/* The rest of the puts has been sent before the end comes to itself, or is sent
 * afterwards. */
static void check (bool is_sent_before)
{
    struct ptlx_config config = {
        .listen_nid = LOOPBACK,
        .partition_key = test_key,
        .liveness_ms = LIVENESS_MS,
    };
    struct raw slow, other;
    struct end end;
    int one = 1;

    end_open_with (&end, &config, SLOTS);
    CHECK (open_table (&end, PTL_PT_FLOWCTRL) == 0);
    open_entry (&end, 0, memory, sizeof (memory), 0, PTL_CT_NONE);
    slow = raw_open (&end, RAW_PID, 1, NULL);
    other = raw_open (&end, RAW_PID + 1, 2, NULL);
    CHECK (setsockopt (slow.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof (one))
           == 0);
    give_all (&slow, &end, 0, 1);
    raw_drive (&end);
    CHECK (PtlPTEnable (end.ni, 0) == PTL_OK);
    CHECK (raw_verdict (&other, &end, memory) == PTL_NI_PT_DISABLED);
    stand_still ();
    if (is_sent_before)
        give_all (&slow, &end, 1, FRAGMENTS);
    raw_drive (&end);
    CHECK (count_of (&end, PTLX_EVENT_PEER_LOST) == 0);
    if (!is_sent_before)
        give_all (&slow, &end, 1, FRAGMENTS);
    pump_until (&end, 1, &end, PTL_EVENT_PUT, SLOTS);
    for (int i = 0; i < SLOTS; i++)
        CHECK (event_of (&end, PTL_EVENT_PUT, i)->ni_fail == PTL_NI_OK);
    CHECK (count_of (&end, PTLX_EVENT_PEER_LOST) == 0);
    close (slow.fd);
    close (other.fd);
    end_close (&end);
}

int main (void)
{
    check (true);
    check (false);
    return 0;
}
