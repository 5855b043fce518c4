#include "harness.h"

int main (void)
{
    struct end ends[1], *a = &ends[0];
    char source[] = { 's' }, target[1];
    ptl_event_t event;
    ptl_handle_md_t md;
    ptl_pt_index_t index;

    end_open (a, 4);
    index = open_table (a, 0);
    open_entry (a, index, target, 1, 0, PTL_CT_NONE);
    md = bind_memory (a, source, 1, PTL_MD_EVENT_SUCCESS_DISABLE,
                      PTL_CT_NONE);
    for (uint64_t i = 0; i < 6; i++) /* to ourselves */
        CHECK (PtlPut (md, 0, 1, PTL_NO_ACK_REQ, a->id, index, 0, 0, NULL, i)
               == PTL_OK);
    CHECK (PtlEQGet (a->eq, &event) == PTL_EQ_DROPPED);
    CHECK (event.hdr_data == 2);
    for (uint64_t i = 3; i < 6; i++) {
        CHECK (PtlEQGet (a->eq, &event) == PTL_OK);
        CHECK (event.hdr_data == i);
    }
    CHECK (PtlEQGet (a->eq, &event) == PTL_EQ_EMPTY);
    end_close (a);
    return 0;
}
