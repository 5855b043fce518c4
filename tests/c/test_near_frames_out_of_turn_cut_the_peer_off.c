/* Frames about shared memory that nothing asked for, or without descriptors:
 * the peer has misbehaved, over TCP and near, whoever dialled. */
#include "near_ends.h"
#include "ptl_answer.h"
#include "ptl_end.h"

static char memory[8];

static void open_either (struct end *end, uint8_t is_local)
{
    struct ptlx_config config = {
        .listen_nid = LOOPBACK,
        .partition_key = test_key,
        .is_local = is_local,
    };

    end_open_with (end, &config, 64);
    open_entry (end, open_table (end, 0), memory, sizeof (memory), 0,
                PTL_CT_NONE);
}

static void send_step (struct end *end, uint8_t step)
{
    struct ptl_frame frame = {
        .type = PTL_FRAME_MEMORY,
        .detail = step,
        .total = PTL_SHM_RING_BYTES,
    };

    ptl_answer_send (conn_of (end), &frame);
    ptl_end_settle (conn_of (end)->end);
}

static void send_out_of_turn (uint8_t is_local, bool by_dialler, uint8_t step)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    struct end *bad = by_dialler ? a : b, *good = by_dialler ? b : a;
    ptl_handle_md_t md;

    open_either (a, is_local);
    open_either (b, is_local);
    md = bind_memory (a, memory, 1, 0, PTL_CT_NONE);
    CHECK (PtlPut (md, 0, 1, PTL_ACK_REQ, b->id, 0, 0, 0, NULL, 0) == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_ACK, 1);
    CHECK (conn_of (a)->is_near == is_local);
    send_step (bad, step);
    pump_until (ends, 2, good, PTLX_EVENT_PEER_LOST, 1);
    CHECK (event_of (good, PTLX_EVENT_PEER_LOST, 0)->reason
           == PTLX_LOSS_MISBEHAVED);
    end_close (a);
    end_close (b);
}

int main (void)
{
    for (uint8_t step = 0; step <= PTL_MEMORY_SWITCH + 1; step++)
        for (int way = 0; way < 4; way++)
            send_out_of_turn (way & 1, way & 2, step);
    return 0;
}
