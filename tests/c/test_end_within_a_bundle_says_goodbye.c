/* An interface that ends at once, while a bundle is open, says goodbye all the
 * same: its peers know an end in order from a death. */
#include "harness.h"

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];

    end_open (a, 64);
    end_open (b, 64);
    CHECK (PtlPTAlloc (b->ni, 0, b->eq, 2, &(ptl_pt_index_t){ 0 }) == PTL_OK);
    open_entry (b, 2, a, 8, PTL_ME_OP_PUT, PTL_CT_NONE);
    CHECK (PtlPut (bind_memory (a, a, 8, 0, PTL_CT_NONE), 0, 0, PTL_ACK_REQ,
                   b->id, 2, 5, 0, NULL, 0)
           == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_ACK, 1);
    CHECK (PtlStartBundle (a->ni) == PTL_OK);
    CHECK (PtlxNIFini (a->ni, 0) == PTL_OK);
    pump_until (b, 1, b, PTLX_EVENT_PEER_LOST, 1);
    CHECK (event_of (b, PTLX_EVENT_PEER_LOST, 0)->reason == PTLX_LOSS_CLOSED);
    PtlFini ();
    free (a->log);
    end_close (b);
    return 0;
}
