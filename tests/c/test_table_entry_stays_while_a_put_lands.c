/* PtlPTFree: PTL_PT_IN_USE while the table entry is in use. A USE_ONCE entry that
 * a large put has matched is no longer linked; the table entry stays until the
 * bytes have landed, and the events go to its queue. */
#include "harness.h"

#define LARGE (8u << 20)

static bool has_begun (void *context)
{
    struct ptlx_counters counters;
    const struct end *end = context;

    CHECK (PtlxCounters (end->ni, &counters) == PTL_OK);
    return counters.bytes_in > 300 * 1024;
}

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    uint8_t *source = calloc (1, LARGE), *target = malloc (LARGE);
    ptl_handle_eq_t first;
    ptl_pt_index_t index;
    ptl_handle_md_t md;
    ptl_event_t event;

    CHECK (source && target);
    memset (target, 1, LARGE);
    end_open (a, 16);
    end_open (b, 16);
    CHECK (PtlEQAlloc (b->ni, 4, &first) == PTL_OK);
    CHECK (PtlPTAlloc (b->ni, 0, first, 7, &index) == PTL_OK);
    open_entry (b, 7, target, LARGE, PTL_ME_USE_ONCE, PTL_CT_NONE);
    CHECK (PtlPTFree (b->ni, 7) == PTL_PT_IN_USE);
    md = bind_memory (a, source, LARGE, 0, PTL_CT_NONE);
    CHECK (PtlPut (md, 0, LARGE, PTL_ACK_REQ, b->id, 7, 0, 0, NULL, 6)
           == PTL_OK);
    pump (ends, 2, has_begun, b);
    CHECK (PtlPTFree (b->ni, 7) == PTL_PT_IN_USE);
    pump_until (ends, 2, a, PTL_EVENT_ACK, 1);
    CHECK (PtlEQGet (first, &event) == PTL_OK);
    CHECK (event.type == PTL_EVENT_PUT && event.hdr_data == 6);
    CHECK (event.mlength == LARGE && target[LARGE - 1] == 0);
    CHECK (PtlEQGet (first, &event) == PTL_OK);
    CHECK (event.type == PTL_EVENT_AUTO_UNLINK);
    CHECK (PtlEQGet (first, &event) == PTL_EQ_EMPTY);
    CHECK (PtlPTFree (b->ni, 7) == PTL_OK);
    CHECK (PtlEQFree (first) == PTL_OK);
    end_close (a);
    end_close (b);
    free (source);
    free (target);
    return 0;
}
