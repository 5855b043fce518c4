#include "harness.h"

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    char source[64], target[16 + 1];
    ptl_handle_md_t md;
    ptl_pt_index_t index;

    memset (source, 'x', sizeof (source));
    memset (target, 0, sizeof (target));
    end_open (a, 16);
    end_open (b, 16);
    index = open_table (b, 0);
    open_entry (b, index, target, 16, 0, PTL_CT_NONE);
    md = bind_memory (a, source, sizeof (source), 0, PTL_CT_NONE);
    PtlPut (md, 0, 64, PTL_ACK_REQ, b->id, index, 0, 12, NULL, 0);
    PtlPut (md, 0, 64, PTL_ACK_REQ, b->id, index, 0, UINT64_MAX, NULL, 0);
    pump_until (ends, 2, a, PTL_EVENT_ACK, 2);
    CHECK (event_of (a, PTL_EVENT_ACK, 0)->mlength == 4);
    CHECK (event_of (a, PTL_EVENT_ACK, 1)->mlength == 0);
    CHECK (event_of (b, PTL_EVENT_PUT, 0)->rlength == 64);
    CHECK (target[11] == 0 && target[12] == 'x' && target[16] == 0);
    end_close (a);
    end_close (b);
    return 0;
}
