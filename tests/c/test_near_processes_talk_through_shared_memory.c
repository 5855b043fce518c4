/* Messages of all sizes from one process of a host to another, and acks back:
 * the first by the socket, the others by the rings, none lost or changed. */
#include "near_ends.h"
#include "ring_pair.h"

#define TARGET_BYTES (4u << 20)

static const size_t sizes[] = {
    0,      1,       8,       63,          64,     65,     960,
    1000,   1024,    4096,    65536,       262143, 262144, 262145,
    524288, 1000000, 3000001, TARGET_BYTES,
};
#define SIZES (int)(sizeof (sizes) / sizeof (*sizes))
#define ROUNDS 4
#define MESSAGES (SIZES * ROUNDS)

static uint8_t memory[TARGET_BYTES];

/* Every message lands at the same place: checked before the next is sent. */
static void receive (struct other *parent)
{
    struct end end;
    const struct ptlx_event *event;

    near_open (&end, 1024);
    open_entry (&end, open_table (&end, 0), memory, sizeof (memory), 0,
                PTL_CT_NONE);
    other_tell (parent, &end.id, sizeof (end.id));
    for (int i = 0; i < MESSAGES; i++) {
        pump_until (&end, 1, &end, PTL_EVENT_PUT, i + 1);
        event = event_of (&end, PTL_EVENT_PUT, i);
        CHECK (event->mlength == sizes[i % SIZES]);
        CHECK (event->ni_fail == PTL_NI_OK);
        for (size_t k = 0; k < event->mlength; k++)
            CHECK (memory[k] == byte_at (k + event->hdr_data));
        other_tell (parent, &i, sizeof (i));
    }
    CHECK (is_shared (&end));
    pump_until (&end, 1, &end, PTLX_EVENT_PEER_LOST, 1);
    event = event_of (&end, PTLX_EVENT_PEER_LOST, 0);
    CHECK (event->reason == PTLX_LOSS_CLOSED);
    end_close (&end);
}

int main (void)
{
    struct other other = other_start (receive);
    struct end end;
    ptl_process_t target;
    ptl_handle_md_t md;
    int heard;

    other_hear (&other, &target, sizeof (target));
    near_open (&end, 1024);
    md = bind_memory (&end, memory, sizeof (memory), PTL_MD_EVENT_SEND_DISABLE,
                      PTL_CT_NONE);
    for (int i = 0; i < MESSAGES; i++) {
        for (size_t k = 0; k < sizes[i % SIZES]; k++)
            memory[k] = byte_at (k + (uint64_t)i);
        CHECK (PtlPut (md, 0, sizes[i % SIZES], PTL_ACK_REQ, target, 0, 0, 0,
                       NULL, (ptl_hdr_data_t)i)
               == PTL_OK);
        pump_until (&end, 1, &end, PTL_EVENT_ACK, i + 1);
        other_hear (&other, &heard, sizeof (heard));
    }
    CHECK (is_shared (&end));
    end_close (&end);
    other_end (&other);
    return 0;
}
