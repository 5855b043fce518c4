#include "harness.h"

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    char source[8] = "abc";
    struct ptlx_counters counters;
    ptl_handle_md_t md;
    ptl_pt_index_t index;

    end_open (a, 16);
    end_open (b, 16);
    index = open_table (b, 0);
    md = bind_memory (a, source, sizeof (source), PTL_MD_EVENT_SEND_DISABLE,
                      PTL_CT_NONE);
    PtlPut (md, 0, 3, PTL_ACK_REQ, b->id, index, 0, 0, NULL, 0);
    PtlPut (md, 0, 3, PTL_ACK_REQ, b->id, 33, 0, 0, NULL, 0);
    CHECK (PtlPTDisable (b->ni, index) == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_ACK, 2);
    CHECK (event_of (a, PTL_EVENT_ACK, 1)->ni_fail == PTL_NI_DROPPED);
    PtlPut (md, 0, 3, PTL_ACK_REQ, b->id, index, 0, 0, NULL, 0);
    pump_until (ends, 2, a, PTL_EVENT_ACK, 3);
    CHECK (event_of (a, PTL_EVENT_ACK, 2)->ni_fail == PTL_NI_PT_DISABLED);
    CHECK (PtlxCounters (b->ni, &counters) == PTL_OK);
    CHECK (counters.dropped >= 1);
    end_close (a);
    end_close (b);
    return 0;
}
