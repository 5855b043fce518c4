/* By threshold, equal thresholds in issue order, none before its threshold;
 * the contents are those at release. */
#include "harness.h"

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    static const uint64_t thresholds[] = { 3, 1, 2, 1, 3, 0 };
    static const uint64_t expected[] = { 5, 1, 3, 2, 0, 4 };
    ptl_ct_event_t one = { 1, 0 }, failed = { 0, 1 };
    char source[] = { 'a' }, target[1] = "";
    ptl_handle_ct_t ct;
    ptl_handle_md_t md;
    ptl_pt_index_t index;

    end_open (a, 64);
    end_open (b, 64);
    CHECK (PtlCTAlloc (a->ni, &ct) == PTL_OK);
    index = open_table (b, 0);
    open_entry (b, index, target, 1, 0, PTL_CT_NONE);
    md = bind_memory (a, source, 1, 0, PTL_CT_NONE);
    for (uint64_t i = 0; i < 6; i++)
        CHECK (PtlTriggeredPut (md, 0, 1, PTL_ACK_REQ, b->id, index, 0, 0,
                                NULL, i, ct, thresholds[i])
               == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_ACK, 1); /* threshold 0: at once */
    CHECK (count_of (b, PTL_EVENT_PUT) == 1);
    source[0] = 'b';
    CHECK (PtlCTInc (ct, one) == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_ACK, 3);
    CHECK (target[0] == 'b' && count_of (b, PTL_EVENT_PUT) == 3);
    CHECK (PtlCTInc (ct, failed) == PTL_OK); /* failures count as well */
    CHECK (PtlCTInc (ct, one) == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_ACK, 6);
    for (int i = 0; i < 6; i++)
        CHECK (event_of (b, PTL_EVENT_PUT, i)->hdr_data == expected[i]);
    end_close (a);
    end_close (b);
    return 0;
}
