#include "harness.h"

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    char byte = 0;
    ptl_md_t md = { .start = &byte, .length = 1, .eq_handle = PTL_EQ_NONE,
                    .ct_handle = PTL_CT_NONE };
    ptl_handle_md_t handle, again;
    ptl_handle_eq_t eq;
    ptl_event_t event;
    ptl_pt_index_t index;
    int count;

    CHECK (PtlEQGet (1, &event) == PTL_NO_INIT);
    end_open (a, 4);
    end_open (b, 4);
    CHECK (PtlMDBind (a->ni, &md, &handle) == PTL_OK);
    CHECK (PtlMDRelease (handle) == PTL_OK);
    CHECK (PtlMDRelease (handle) == PTL_ARG_INVALID);
    CHECK (PtlMDBind (a->ni, &md, &again) == PTL_OK);
    CHECK (again != handle); /* the slot is the same, the handle is not */
    CHECK (PtlMDRelease (handle) == PTL_ARG_INVALID);
    CHECK (PtlEQGet (again, &event) == PTL_ARG_INVALID); /* another kind */
    CHECK (PtlPTAlloc (a->ni, 0, b->eq, PTL_PT_ANY, &index)
           == PTL_ARG_INVALID); /* of another interface */
    md.eq_handle = b->eq;
    CHECK (PtlMDBind (a->ni, &md, &handle) == PTL_ARG_INVALID);
    CHECK (PtlxEvents (a->ni, b->eq, NULL, 1, &count) == PTL_ARG_INVALID);
    CHECK (PtlEQAlloc (a->ni, 0, &eq) == PTL_ARG_INVALID);
    CHECK (PtlPTAlloc (a->ni, PTL_PT_FLOWCTRL, PTL_EQ_NONE, 5, &index)
           == PTL_PT_EQ_NEEDED);
    CHECK (PtlPTAlloc (a->ni, 0, a->eq, 64, &index) == PTL_ARG_INVALID);
    CHECK (PtlPTAlloc (a->ni, 0, a->eq, 63, &index) == PTL_OK);
    CHECK (PtlPTAlloc (a->ni, 0, a->eq, 63, &index) == PTL_PT_IN_USE);
    end_close (a);
    CHECK (PtlMDRelease (again) == PTL_ARG_INVALID); /* gone with it */
    end_close (b);
    CHECK (PtlMDRelease (again) == PTL_NO_INIT);
    return 0;
}
