/* PTL_EVENT_AUTO_UNLINK, PTL_EVENT_AUTO_FREE (spec 3.13.1), PtlLEUnlink,
 * PtlMEUnlink, PtlPTFree: an overflow entry that unlinks itself says AUTO_UNLINK after the
 * operation, and AUTO_FREE when the last header that it left has been taken. While it
 * has left headers it cannot be unlinked (PTL_IN_USE), nor its table entry be
 * freed (PTL_PT_IN_USE).
 * kinds: all */
#include "kinds.h"

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    char slab[8], source[] = "abcd", one, two, three;
    ptl_handle_me_t first, second;
    entry_t entry, taker;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    ptl_pt_index_t index;
    ptl_event_t event;

    kinds_open (ends, 2, 16, NULL);
    index = kinds_table (b, 0, 32, &eq);
    md = bind_memory (a, source, 4, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    entry = entry_of (slab, 4, PTL_LE_OP_PUT | PTL_LE_USE_ONCE
                          | PTL_LE_EVENT_LINK_DISABLE);
    first = put_entry (b, index, &entry, PTL_OVERFLOW_LIST, &one);
    entry = entry_of (slab + 4, 4, PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE);
    second = put_entry (b, index, &entry, PTL_OVERFLOW_LIST, &two);
    for (unsigned i = 0; i < 3; i++)
        put_to (ends, 2, a, md, 4, b, index, 0, 0, i);
    CHECK (expect (eq, PTL_EVENT_PUT).user_ptr == &one);
    event = expect (eq, PTL_EVENT_AUTO_UNLINK);
    CHECK (event.user_ptr == &one && event.pt_index == index);
    CHECK (expect (eq, PTL_EVENT_PUT).user_ptr == &two);
    CHECK (expect (eq, PTL_EVENT_PUT).user_ptr == &two);
    CHECK (is_empty (eq));
    CHECK (entry_unlink (first) == PTL_IN_USE); /* its memory has a message */
    CHECK (entry_unlink (second) == PTL_IN_USE);
    CHECK (PtlPTFree (b->ni, index) == PTL_PT_IN_USE);
    taker = entry_of (NULL, 0, PTL_LE_OP_PUT | PTL_LE_USE_ONCE
                          | PTL_LE_EVENT_UNLINK_DISABLE);
    put_entry (b, index, &taker, PTL_PRIORITY_LIST, &three);
    CHECK (expect (eq, PTL_EVENT_PUT_OVERFLOW).start == slab);
    event = expect (eq, PTL_EVENT_AUTO_FREE);
    CHECK (event.user_ptr == &one && event.pt_index == index);
    CHECK (event.ni_fail_type == PTL_NI_OK);
    CHECK (entry_unlink (first) == PTL_ARG_INVALID);
    put_entry (b, index, &taker, PTL_PRIORITY_LIST, &three);
    CHECK (entry_unlink (second) == PTL_IN_USE); /* one more */
    put_entry (b, index, &taker, PTL_PRIORITY_LIST, &three);
    CHECK (expect (eq, PTL_EVENT_PUT_OVERFLOW).start == slab + 4);
    CHECK (expect (eq, PTL_EVENT_PUT_OVERFLOW).hdr_data == 2);
    CHECK (PtlPTFree (b->ni, index) == PTL_PT_IN_USE); /* it is linked */
    CHECK (entry_unlink (second) == PTL_OK);
    CHECK (PtlPTFree (b->ni, index) == PTL_OK);
    CHECK (is_empty (eq)); /* its user has unlinked it: no event */
    kinds_close (ends, 2);
    return 0;
}
