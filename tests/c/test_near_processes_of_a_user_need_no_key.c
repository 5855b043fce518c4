/* Without a key, processes of one user and host reach each other by the ids
 * that they listen at; who has a key is not to be reached so. */
#include "near_ends.h"

static void open_keyless (struct end *end, uint8_t no_memory)
{
    struct ptlx_config config = {
        .listen_nid = LOOPBACK,
        .is_local = 1,
        .no_memory = no_memory,
    };

    end_open_with (end, &config, 64);
}

static void reach (uint8_t no_memory)
{
    struct end ends[3], *a = &ends[0], *b = &ends[1], *keyed = &ends[2];
    static char memory[64];
    ptl_handle_md_t md;

    open_keyless (a, no_memory);
    open_keyless (b, no_memory);
    near_open (keyed, 64);
    open_entry (b, open_table (b, 0), memory, sizeof (memory), 0, PTL_CT_NONE);
    md = bind_memory (a, memory, 1, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    for (int i = 0; i < 20; i++) {
        PtlPut (md, 0, 1, PTL_ACK_REQ, b->id, 0, 0, 0, NULL, 0);
        pump_until (ends, 3, a, PTL_EVENT_ACK, i + 1);
    }
    CHECK (is_shared (a) != no_memory && is_shared (b) != no_memory);
    CHECK (event_of (b, PTL_EVENT_PUT, 0)->nid == a->id.phys.nid);
    CHECK (event_of (b, PTL_EVENT_PUT, 0)->pid == a->id.phys.pid);

    PtlPut (md, 0, 1, PTL_ACK_REQ, keyed->id, 0, 0, 0, NULL, 0);
    pump_until (ends, 3, a, PTLX_EVENT_PEER_LOST, 1);
    CHECK (event_of (a, PTLX_EVENT_PEER_LOST, 0)->reason
           == PTLX_LOSS_REFUSED);
    for (int i = 0; i < 3; i++)
        end_close (&ends[i]);
}

int main (void)
{
    reach (0);
    reach (1);
    return 0;
}
