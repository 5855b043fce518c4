/* More fragmented puts than may be open at once, each of its own pattern. */
#include "harness.h"

#define PUTS 20
#define EACH (700 * 1024 + 13)

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    uint8_t *source = malloc (PUTS * EACH), *target = calloc (PUTS, EACH);
    ptl_handle_md_t md;
    ptl_pt_index_t index;

    CHECK (source && target);
    for (size_t i = 0; i < PUTS * EACH; i++)
        source[i] = (uint8_t)(i / EACH + i % 251);
    end_open (a, 64);
    end_open (b, 64);
    index = open_table (b, 0);
    open_entry (b, index, target, PUTS * EACH, 0, PTL_CT_NONE);
    md = bind_memory (a, source, PUTS * EACH, PTL_MD_EVENT_SEND_DISABLE,
                      PTL_CT_NONE);
    for (size_t i = 0; i < PUTS; i++)
        CHECK (PtlPut (md, i * EACH, EACH, PTL_ACK_REQ, b->id, index, 0,
                       i * EACH, NULL, i)
               == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_ACK, PUTS);
    CHECK (count_of (b, PTL_EVENT_PUT) == PUTS);
    CHECK (memcmp (source, target, PUTS * EACH) == 0);
    end_close (a);
    end_close (b);
    free (source);
    free (target);
    return 0;
}
