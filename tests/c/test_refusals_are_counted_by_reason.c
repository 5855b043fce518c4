/* PtlNIStatus (spec 3.6.4), ptl_ni_fail_t (3.13.3): nobody matches, or there is no such
 * table entry: NI_DROPPED and PTL_SR_DROP_COUNT. An entry matches but is for another
 * user: NI_PERM_VIOLATION and PTL_SR_PERMISSION_VIOLATIONS; not for this operation:
 * NI_OP_VIOLATION and PTL_SR_OPERATION_VIOLATIONS. No event at the target, no byte in
 * memory, USE_ONCE stays linked. A header that an append may not have is
 * counted as well and stays; a search counts nothing.
 * kinds: all */
#include "kinds.h"

static struct end ends[2], *a = &ends[0], *b = &ends[1];

static bool registers (int dropped, int permission, int operation)
{
    return status_of (b, PTL_SR_DROP_COUNT) == dropped
        && status_of (b, PTL_SR_PERMISSION_VIOLATIONS) == permission
        && status_of (b, PTL_SR_OPERATION_VIOLATIONS) == operation;
}

int main (void)
{
    char source[] = "abcd", target[8] = "", slab[8];
    entry_t entry = entry_of (target, sizeof (target),
                              PTL_LE_OP_PUT | PTL_LE_USE_ONCE
                                  | PTL_LE_EVENT_LINK_DISABLE);
    ptl_handle_me_t handle;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    ptl_pt_index_t index;
    ptl_sr_value_t value;

    CHECK (PtlNIStatus (1, PTL_SR_DROP_COUNT, &value) == PTL_NO_INIT);
    kinds_open (ends, 2, 16, NULL);
    index = kinds_table (b, 0, 16, &eq);
    md = bind_memory (a, source, 4, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    CHECK (PtlNIStatus (b->ni, (ptl_sr_index_t)3, &value) == PTL_ARG_INVALID);
    CHECK (PtlNIStatus (b->ni, PTL_SR_DROP_COUNT, NULL) == PTL_ARG_INVALID);
    CHECK (registers (0, 0, 0));
    CHECK (put_to (ends, 2, a, md, 4, b, index + 1, 0, 0, 0).ni_fail
           == PTL_NI_DROPPED);
    CHECK (put_to (ends, 2, a, md, 4, b, 63, 0, 0, 0).ni_fail
           == PTL_NI_DROPPED);
    CHECK (put_to (ends, 2, a, md, 4, b, index, 0, 0, 0).ni_fail
           == PTL_NI_DROPPED);
    CHECK (registers (3, 0, 0));

    entry.uid = UID_OF_FIRST + 1; /* its own */
    handle = put_entry (b, index, &entry, PTL_PRIORITY_LIST, NULL);
    CHECK (put_to (ends, 2, a, md, 4, b, index, 0, 0, 0).ni_fail
           == PTL_NI_PERM_VIOLATION);
    CHECK (registers (3, 1, 0));
    CHECK (entry_unlink (handle) == PTL_OK);
    entry.uid = UID_OF_FIRST;
    entry.options ^= PTL_LE_OP_PUT | PTL_LE_OP_GET;
    handle = put_entry (b, index, &entry, PTL_PRIORITY_LIST, NULL);
    CHECK (put_to (ends, 2, a, md, 4, b, index, 0, 0, 0).ni_fail
           == PTL_NI_OP_VIOLATION);
    CHECK (registers (3, 1, 1));
    CHECK (is_empty (eq) && target[0] == 0);
    CHECK (entry_unlink (handle) == PTL_OK);

    entry.start = slab;
    entry.options = PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE;
    put_entry (b, index, &entry, PTL_OVERFLOW_LIST, NULL);
    CHECK (put_to (ends, 2, a, md, 4, b, index, 0, 0, 0).ni_fail == PTL_NI_OK);
    expect (eq, PTL_EVENT_PUT);
    entry.uid = UID_OF_FIRST + 1;
    CHECK (entry_search (b->ni, index, &entry, PTL_SEARCH_DELETE, NULL)
           == PTL_OK);
    expect (eq, PTL_EVENT_SEARCH);
    CHECK (registers (3, 1, 1));
    handle = put_entry (b, index, &entry, PTL_PRIORITY_LIST, NULL);
    CHECK (registers (3, 2, 1) && is_empty (eq));
    CHECK (entry_unlink (handle) == PTL_OK);
    entry.uid = PTL_UID_ANY;
    put_entry (b, index, &entry, PTL_PRIORITY_LIST, NULL);
    expect (eq, PTL_EVENT_PUT_OVERFLOW); /* it was still there */
    CHECK (registers (3, 2, 1) && is_empty (eq));
    kinds_close (ends, 2);
    return 0;
}
