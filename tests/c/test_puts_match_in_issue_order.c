/* Each of many puts meets a USE_ONCE entry: the nth put, the nth entry. */
#include "harness.h"

#define PUTS 2000

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    static uint32_t source[PUTS], target[PUTS];
    ptl_handle_md_t md;
    ptl_pt_index_t index;

    end_open (a, 2 * PUTS);
    end_open (b, 2 * PUTS);
    index = open_table (b, 0);
    for (int i = 0; i < PUTS; i++) {
        source[i] = (uint32_t)i + 1;
        open_entry (b, index, &target[i], sizeof (target[i]),
                    PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE,
                    PTL_CT_NONE);
    }
    md = bind_memory (a, source, sizeof (source), PTL_MD_EVENT_SEND_DISABLE,
                      PTL_CT_NONE);
    for (size_t i = 0; i < PUTS; i++)
        PtlPut (md, 4 * i, 4, PTL_ACK_REQ, b->id, index, 0, 0, NULL, i);
    pump_until (ends, 2, a, PTL_EVENT_ACK, PUTS);
    CHECK (memcmp (source, target, sizeof (source)) == 0);
    for (int i = 0; i < PUTS; i++)
        CHECK (event_of (b, PTL_EVENT_PUT, i)->hdr_data == (uint64_t)i);
    end_close (a);
    end_close (b);
    return 0;
}
