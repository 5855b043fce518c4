/* PtlLEAppend, PtlMEAppend (spec 3.11.2, 3.12.2): a persistent entry takes all headers
 * that it matches, in the order in which they came, and is linked after them;
 * what comes then lands in its own memory, with list PRIORITY. An append to the
 * overflow list searches nothing.
 * kinds: all */
#include "kinds.h"

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    char slab[16], own[16], source[] = "abcd", one, two;
    entry_t entry;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    ptl_pt_index_t index;
    ptl_event_t event;

    kinds_open (ends, 2, 16, NULL);
    index = kinds_table (b, 0, 32, &eq);
    md = bind_memory (a, source, 4, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    entry = entry_of (slab, sizeof (slab), PTL_LE_OP_PUT);
    put_entry (b, index, &entry, PTL_OVERFLOW_LIST, &one);
    expect (eq, PTL_EVENT_LINK);
    for (unsigned i = 0; i < 5; i++)
        put_to (ends, 2, a, md, 4, b, index, 0, 0, i);
    for (unsigned i = 0; i < 5; i++)
        CHECK (expect (eq, PTL_EVENT_PUT).hdr_data == i);
    put_entry (b, index, &entry, PTL_OVERFLOW_LIST, &one);
    expect (eq, PTL_EVENT_LINK);
    CHECK (is_empty (eq));
    entry = entry_of (own, sizeof (own), PTL_LE_OP_PUT);
    put_entry (b, index, &entry, PTL_PRIORITY_LIST, &two);
    for (unsigned i = 0; i < 5; i++) {
        event = expect (eq, PTL_EVENT_PUT_OVERFLOW);
        CHECK (event.hdr_data == i && event.user_ptr == &two);
    }
    event = expect (eq, PTL_EVENT_LINK);
    CHECK (event.user_ptr == &two && is_empty (eq));
    put_to (ends, 2, a, md, 4, b, index, 0, 3, 9);
    event = expect (eq, PTL_EVENT_PUT);
    CHECK (event.start == own + 3 && event.ptl_list == PTL_PRIORITY_LIST);
    CHECK (event.user_ptr == &two && memcmp (own + 3, source, 4) == 0);
    CHECK (is_empty (eq));
    kinds_close (ends, 2);
    return 0;
}
