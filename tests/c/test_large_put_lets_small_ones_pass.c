/* A put of many fragments is under way when a small one is issued: the small
 * one, matched later, is whole first. Both arrive unharmed. */
#include "harness.h"

#define LARGE (40u << 20)

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    uint8_t *source = malloc (LARGE), *target = calloc (1, LARGE);
    char small[4] = "hey", landed[4] = { 0 };
    ptl_handle_md_t md, md_small;
    ptl_pt_index_t index, index_small;

    CHECK (source && target);
    for (size_t i = 0; i < LARGE; i++)
        source[i] = (uint8_t)(i * 31 + (i >> 13));
    end_open (a, 64);
    end_open (b, 64);
    index = open_table (b, 0);
    index_small = open_table (b, 0);
    open_entry (b, index, target, LARGE, 0, PTL_CT_NONE);
    open_entry (b, index_small, landed, 4, 0, PTL_CT_NONE);
    md = bind_memory (a, source, LARGE, 0, PTL_CT_NONE);
    md_small = bind_memory (a, small, 4, 0, PTL_CT_NONE);
    PtlPut (md, 0, LARGE, PTL_ACK_REQ, b->id, index, 0, 0, NULL, 1);
    PtlPut (md_small, 0, 4, PTL_ACK_REQ, b->id, index_small, 0, 0, NULL, 2);
    pump_until (ends, 2, a, PTL_EVENT_ACK, 2);
    CHECK (event_of (b, PTL_EVENT_PUT, 0)->hdr_data == 2);
    CHECK (event_of (b, PTL_EVENT_PUT, 1)->hdr_data == 1);
    CHECK (memcmp (source, target, LARGE) == 0);
    CHECK (strcmp (landed, "hey") == 0);
    end_close (a);
    end_close (b);
    free (source);
    free (target);
    return 0;
}
