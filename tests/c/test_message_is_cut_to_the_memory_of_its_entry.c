/* ptl_le_t, ptl_me_t (spec 3.11.1, 3.12.1): a message longer than what is left behind its
 * offset is truncated, one that begins behind the end to nothing; event and ack
 * say how much was accepted. An entry without memory takes messages of any
 * length and keeps none of them. The priority list comes before the overflow
 * list, the first entry before the second.
 * kinds: all */
#include "kinds.h"

int main (void)
{
    static const struct {
        size_t length;
        uint64_t offset, mlength;
    } cases[] = {
        { 4, 0, 4 }, { 8, 0, 8 },  { 9, 0, 8 }, { 4, 6, 2 },
        { 4, 8, 0 }, { 4, 99, 0 }, { 0, 0, 0 }, { 1, UINT64_MAX, 0 },
    };
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    char source[16], memory[16], one, two, three;
    entry_t entry = entry_of (memory, 8, PTL_LE_OP_PUT
                                  | PTL_LE_EVENT_LINK_DISABLE);
    ptl_handle_me_t handle;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    ptl_pt_index_t index;

    kinds_open (ends, 2, 64, NULL);
    index = kinds_table (b, 0, 16, &eq);
    memset (source, 'x', sizeof (source));
    md = bind_memory (a, source, sizeof (source), PTL_MD_EVENT_SEND_DISABLE,
                      PTL_CT_NONE);
    put_entry (b, index, &entry, PTL_OVERFLOW_LIST, &three);
    handle = put_entry (b, index, &entry, PTL_PRIORITY_LIST, &one);
    put_entry (b, index, &entry, PTL_PRIORITY_LIST, &two);
    for (size_t i = 0; i < sizeof (cases) / sizeof (*cases); i++) {
        uint64_t mlength = cases[i].mlength;
        struct ptlx_event ack;
        ptl_event_t event;

        memset (memory, '-', sizeof (memory));
        ack = put_to (ends, 2, a, md, cases[i].length, b, index, 0,
                      cases[i].offset, 0);
        event = expect (eq, PTL_EVENT_PUT);
        CHECK (ack.mlength == mlength && event.mlength == mlength);
        CHECK (event.rlength == cases[i].length && event.user_ptr == &one);
        CHECK (event.remote_offset == cases[i].offset);
        for (uint64_t k = 0; k < sizeof (memory); k++)
            CHECK (memory[k]
                   == (k >= cases[i].offset && k - cases[i].offset < mlength
                           ? 'x'
                           : '-'));
    }
    CHECK (entry_unlink (handle) == PTL_OK);
    put_to (ends, 2, a, md, 4, b, index, 0, 0, 0);
    CHECK (expect (eq, PTL_EVENT_PUT).user_ptr == &two);
    index = kinds_table (b, 0, 16, &eq);
    entry = entry_of (NULL, 0, PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE);
    put_entry (b, index, &entry, PTL_PRIORITY_LIST, NULL);
    CHECK (put_to (ends, 2, a, md, 16, b, index, 0, 0, 0).mlength == 0);
    CHECK (expect (eq, PTL_EVENT_PUT).rlength == 16);
    kinds_close (ends, 2);
    return 0;
}
