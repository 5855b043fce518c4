/* PtlLEAppend, PtlMEAppend (spec 3.6.1, 3.11, 3.12): PTL_NO_SPACE for one entry more than
 * max_entries, PTL_LIST_TOO_LONG for one more than max_list_size in a list; an
 * unlinked entry makes room again. A USE_ONCE entry that takes a header is not
 * linked, so a full list does not refuse it.
 * kinds: all */
#include "kinds.h"

#define ENTRIES 7
#define LIST 3

static int append (const struct end *end, ptl_pt_index_t index,
                   ptl_list_t list, unsigned options, ptl_handle_me_t *handle)
{
    entry_t entry = entry_of (NULL, 0, PTL_LE_OP_PUT
                                  | PTL_LE_EVENT_LINK_DISABLE | options);

    return entry_append (end->ni, index, &entry, list, NULL, handle);
}

int main (void)
{
    static const ptl_ni_limits_t limits
        = { .max_entries = ENTRIES, .max_list_size = LIST };
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    ptl_handle_me_t handles[ENTRIES], none;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    ptl_pt_index_t index, second;
    ptl_handle_ct_t ct;

    kinds_open (ends, 2, 16, &limits);
    index = kinds_table (b, 0, 16, &eq);
    CHECK (PtlPTAlloc (b->ni, 0, eq, PTL_PT_ANY, &second) == PTL_OK);
    CHECK (PtlCTAlloc (b->ni, &ct) == PTL_OK);
    md = bind_memory (a, NULL, 0, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    for (int i = 0; i < LIST; i++) {
        CHECK (append (b, index, PTL_OVERFLOW_LIST, 0, &handles[i]) == PTL_OK);
        CHECK (append (b, second, PTL_PRIORITY_LIST, 0, &handles[LIST + i])
               == PTL_OK);
    }
    CHECK (append (b, index, PTL_OVERFLOW_LIST, 0, &none)
           == PTL_LIST_TOO_LONG);
    CHECK (append (b, second, PTL_PRIORITY_LIST, 0, &none)
           == PTL_LIST_TOO_LONG);
    CHECK (append (b, index, PTL_PRIORITY_LIST, 0, &handles[ENTRIES - 1])
           == PTL_OK);
    CHECK (append (b, index, PTL_PRIORITY_LIST, 0, &none) == PTL_NO_SPACE);
    CHECK (entry_unlink (handles[ENTRIES - 1]) == PTL_OK);
    put_to (ends, 2, a, md, 0, b, index, 0, 0, 0); /* a header */
    for (int i = 0; i < LIST; i++) {
        CHECK (entry_unlink (handles[LIST + i]) == PTL_OK);
        CHECK (append (b, second, PTL_PRIORITY_LIST, 0, &handles[LIST + i])
               == PTL_OK);
    }
    CHECK (append (b, second, PTL_PRIORITY_LIST, PTL_LE_USE_ONCE, &none)
           == PTL_LIST_TOO_LONG); /* the header is elsewhere */
    for (int i = 0; i < LIST; i++)
        CHECK (entry_unlink (handles[LIST + i]) == PTL_OK);
    CHECK (append (b, index, PTL_PRIORITY_LIST, PTL_LE_USE_ONCE, &none)
           == PTL_OK);
    expect (eq, PTL_EVENT_PUT);
    expect (eq, PTL_EVENT_PUT_OVERFLOW);
    expect (eq, PTL_EVENT_AUTO_UNLINK);
    CHECK (entry_unlink (none) == PTL_ARG_INVALID);
    for (int i = 0; i < LIST; i++) /* its place is free again */
        CHECK (append (b, index, PTL_PRIORITY_LIST, 0, &handles[LIST + i])
               == PTL_OK);
    kinds_close (ends, 2);
    return 0;
}
