/* PtlLESearch, PtlMESearch with PTL_SEARCH_DELETE (spec 3.11.4, 3.12.4): PUT_OVERFLOW for
 * the header, which goes; SEARCH with NI_NO_MATCH when there is none. Without
 * USE_ONCE all that match go, and nothing at the end. A counter counts what it
 * finds, and as a failure that there is no more.
 * kinds: all */
#include "kinds.h"

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    char slab[8], source[] = "abcd", one, two;
    unsigned quiet = PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE
        | PTL_LE_EVENT_COMM_DISABLE;
    entry_t entry = entry_of (slab, sizeof (slab), quiet | PTL_LE_USE_ONCE);
    ptl_handle_me_t handle;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    ptl_pt_index_t index;
    ptl_event_t event;

    kinds_open (ends, 2, 16, NULL);
    index = kinds_table (b, 0, 16, &eq);
    md = bind_memory (a, source, 4, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    put_entry (b, index, &entry, PTL_OVERFLOW_LIST, &one);
    entry.options = quiet;
    handle = put_entry (b, index, &entry, PTL_OVERFLOW_LIST, NULL);
    for (unsigned i = 0; i < 4; i++)
        put_to (ends, 2, a, md, 4, b, index, 0, 0, i);
    expect (eq, PTL_EVENT_AUTO_UNLINK); /* the operation itself is silent */

    entry = entry_of (NULL, 0, PTL_LE_OP_PUT | PTL_LE_USE_ONCE);
    CHECK (entry_search (b->ni, index, &entry, PTL_SEARCH_DELETE, &two)
           == PTL_OK);
    event = expect (eq, PTL_EVENT_PUT_OVERFLOW);
    CHECK (event.hdr_data == 0 && event.user_ptr == &two);
    CHECK (event.start == slab && event.mlength == 4 && is_from (&event, a));
    event = expect (eq, PTL_EVENT_AUTO_FREE); /* no AUTO_UNLINK: a search */
    CHECK (event.user_ptr == &one);
    CHECK (entry_unlink (handle) == PTL_IN_USE);

    entry.options = PTL_LE_OP_PUT | PTL_LE_EVENT_CT_OVERFLOW;
    CHECK (PtlCTAlloc (b->ni, &entry.ct_handle) == PTL_OK);
    CHECK (entry_search (b->ni, index, &entry, PTL_SEARCH_DELETE, &two)
           == PTL_OK);
    for (unsigned i = 1; i < 4; i++)
        CHECK (expect (eq, PTL_EVENT_PUT_OVERFLOW).hdr_data == i);
    CHECK (is_empty (eq));
    CHECK (counts (entry.ct_handle, 3, 1));
    CHECK (PtlCTFree (entry.ct_handle) == PTL_OK); /* nobody keeps it */

    entry.options = PTL_LE_OP_PUT | PTL_LE_USE_ONCE;
    entry.ct_handle = PTL_CT_NONE;
    CHECK (entry_search (b->ni, index, &entry, PTL_SEARCH_DELETE, &two)
           == PTL_OK);
    event = expect (eq, PTL_EVENT_SEARCH);
    CHECK (event.ni_fail_type == PTL_NI_NO_MATCH && is_empty (eq));
    CHECK (entry_unlink (handle) == PTL_OK);
    CHECK (PtlPTFree (b->ni, index) == PTL_OK);
    kinds_close (ends, 2);
    return 0;
}
