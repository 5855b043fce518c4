/* A locally managed entry takes messages one after another. With less than
 * min_free left it posts AUTO_UNLINK, and AUTO_FREE after the last event about
 * its memory. */
#include "harness.h"

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    char source[100], slab[256];
    ptl_me_t me = {
        .start = slab,
        .length = sizeof (slab),
        .uid = PTL_UID_ANY,
        .min_free = 100,
        .options = PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL
            | PTL_ME_UNEXPECTED_HDR_DISABLE | PTL_ME_EVENT_LINK_DISABLE,
        .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY },
        .ignore_bits = UINT64_MAX,
        .ct_handle = PTL_CT_NONE,
    };
    ptl_handle_me_t handle;
    ptl_handle_md_t md;
    ptl_pt_index_t index;

    memset (source, 'y', sizeof (source));
    end_open (a, 16);
    end_open (b, 16);
    index = open_table (b, PTL_PT_FLOWCTRL);
    CHECK (PtlMEAppend (b->ni, index, &me, PTL_OVERFLOW_LIST, slab, &handle)
           == PTL_OK);
    md = bind_memory (a, source, sizeof (source), 0, PTL_CT_NONE);
    PtlPut (md, 0, 90, PTL_ACK_REQ, b->id, index, 0, 7, NULL, 0);
    PtlPut (md, 0, 80, PTL_ACK_REQ, b->id, index, 0, 7, NULL, 0);
    pump_until (ends, 2, a, PTL_EVENT_ACK, 2);
    CHECK (b->n == 4);
    CHECK (b->log[0].type == PTL_EVENT_PUT && b->log[0].start == slab);
    CHECK (b->log[1].type == PTL_EVENT_PUT);
    CHECK ((char *)b->log[1].start == slab + 90);
    CHECK (b->log[2].type == PTL_EVENT_AUTO_UNLINK);
    CHECK (b->log[3].type == PTL_EVENT_AUTO_FREE);
    CHECK (b->log[3].user_ptr == slab);
    CHECK (PtlMEUnlink (handle) == PTL_ARG_INVALID); /* it is freed */
    end_close (a);
    end_close (b);
    return 0;
}
