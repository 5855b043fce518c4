/* PtlLEAppend, PtlLESearch, PtlLEUnlink and their ME forms (spec 3.11, 3.12):
 * PTL_NO_INIT before PtlInit; PTL_ARG_INVALID for what is not an interface, a
 * table entry, an entry, a list, an option, a counter of this interface, for
 * null memory that has a length, for the other sort of interface.
 * kinds: all */
#include "kinds.h"

static entry_t entry;
static ptl_handle_me_t handle;

static void before_init (void)
{
    ptl_handle_ct_t ct = 1;

    CHECK (entry_append (1, 0, &entry, PTL_PRIORITY_LIST, NULL, &handle)
           == PTL_NO_INIT);
    CHECK (entry_search (1, 0, &entry, PTL_SEARCH_ONLY, NULL) == PTL_NO_INIT);
    CHECK (entry_unlink (1) == PTL_NO_INIT);
    CHECK (entry_append_triggered (1, 0, &entry, PTL_PRIORITY_LIST, NULL,
                                   &handle, ct, 1)
           == PTL_NO_INIT);
    CHECK (entry_unlink_triggered (1, ct, 1) == PTL_NO_INIT);
}

static int append (const struct end *end, ptl_pt_index_t index,
                   ptl_list_t list)
{
    return entry_append (end->ni, index, &entry, list, NULL, &handle);
}

static int search (const struct end *end, ptl_pt_index_t index)
{
    return entry_search (end->ni, index, &entry, PTL_SEARCH_DELETE, NULL);
}

/* One thing is wrong with the entry. */
static void refused (const struct end *end, ptl_pt_index_t index)
{
    ptl_handle_ct_t ct;

    CHECK (PtlCTAlloc (end->ni, &ct) == PTL_OK);
    CHECK (append (end, index, PTL_PRIORITY_LIST) == PTL_ARG_INVALID);
    CHECK (append (end, index, PTL_OVERFLOW_LIST) == PTL_ARG_INVALID);
    CHECK (search (end, index) == PTL_ARG_INVALID);
    CHECK (entry_append_triggered (end->ni, index, &entry, PTL_PRIORITY_LIST,
                                   NULL, &handle, ct, 1)
           == PTL_ARG_INVALID);
    CHECK (PtlCTFree (ct) == PTL_OK);
}

static void arguments (const struct end *end, ptl_pt_index_t index,
                       ptl_handle_ct_t ct)
{
    entry = entry_of (NULL, 0, PTL_LE_OP_PUT);
    refused (end, index + 1); /* not allocated */
    refused (end, 1u << 20);
    CHECK (append (end, index, (ptl_list_t)2) == PTL_ARG_INVALID);
    CHECK (entry_search (end->ni, index, &entry, (ptl_search_op_t)2, NULL)
           == PTL_ARG_INVALID);
    CHECK (entry_append (end->ni, index, NULL, PTL_PRIORITY_LIST, NULL,
                         &handle)
           == PTL_ARG_INVALID);
    CHECK (entry_append (end->ni, index, &entry, PTL_PRIORITY_LIST, NULL, NULL)
           == PTL_ARG_INVALID);
    CHECK (entry_search (end->ni, index, NULL, PTL_SEARCH_ONLY, NULL)
           == PTL_ARG_INVALID);
    CHECK (entry_append (ct, index, &entry, PTL_PRIORITY_LIST, NULL, &handle)
           == PTL_ARG_INVALID);
    CHECK (entry_search (ct, index, &entry, PTL_SEARCH_ONLY, NULL)
           == PTL_ARG_INVALID);
    CHECK (entry_append_triggered (end->ni, index, &entry, PTL_PRIORITY_LIST,
                                   NULL, &handle, PTL_CT_NONE, 1)
           == PTL_ARG_INVALID);
    CHECK (entry_append_triggered (end->ni, index, &entry, PTL_PRIORITY_LIST,
                                   NULL, &handle, end->eq, 1)
           == PTL_ARG_INVALID);
    CHECK (entry_unlink (PTL_INVALID_HANDLE) == PTL_ARG_INVALID);
    CHECK (entry_unlink (ct) == PTL_ARG_INVALID);
    CHECK (entry_unlink_triggered (ct, ct, 1) == PTL_ARG_INVALID);
}

static void entries (const struct end *end, ptl_pt_index_t index,
                     ptl_handle_ct_t foreign)
{
    static const unsigned unknown[] = { 1u << 16, 1u << 21, 1u << 31 };
    ptl_iovec_t pieces[3] = { { NULL, 0 }, { NULL, 0 }, { NULL, 0 } };
    char memory[8];

    for (size_t i = 0; i < sizeof (unknown) / sizeof (*unknown); i++) {
        entry = entry_of (memory, 8, PTL_LE_OP_PUT | unknown[i]);
        refused (end, index);
    }
    entry = entry_of (NULL, 8, PTL_LE_OP_PUT);
    refused (end, index);
    entry = entry_of (NULL, 1, PTL_LE_OP_PUT | PTL_IOVEC);
    refused (end, index);
    entry = entry_of (pieces, 3, PTL_LE_OP_PUT | PTL_IOVEC); /* limit: 2 */
    refused (end, index);
    pieces[1].iov_len = 4;
    entry = entry_of (pieces, 2, PTL_LE_OP_PUT | PTL_IOVEC);
    refused (end, index);
    entry = entry_of (memory, 8, PTL_LE_OP_PUT);
    entry.ct_handle = foreign;
    refused (end, index);
    entry.ct_handle = end->eq;
    refused (end, index);
    for (unsigned bit = 17; !IS_MATCHING && bit <= 20; bit++) {
        entry = entry_of (memory, 8, PTL_LE_OP_PUT | 1u << bit);
        refused (end, index); /* it is of match entries */
    }
    if (IS_MATCHING && IS_LOGICAL) {
        entry = entry_of (memory, 8, PTL_LE_OP_PUT);
        entry.match_id.rank = 2; /* of 2 */
        refused (end, index);
    }
}

/* Match entries are for interfaces with matching, list entries for others. */
static void other_sort (const struct end *end, ptl_pt_index_t index)
{
    ptl_me_t me = { .uid = PTL_UID_ANY, .ct_handle = PTL_CT_NONE };
    ptl_le_t le = { .uid = PTL_UID_ANY, .ct_handle = PTL_CT_NONE };

    entry = entry_of (NULL, 0, PTL_LE_OP_PUT);
    CHECK (append (end, index, PTL_PRIORITY_LIST) == PTL_OK);
    if (IS_MATCHING) {
        CHECK (PtlLEAppend (end->ni, index, &le, PTL_PRIORITY_LIST, NULL,
                            &handle)
               == PTL_ARG_INVALID);
        CHECK (PtlLESearch (end->ni, index, &le, PTL_SEARCH_ONLY, NULL)
               == PTL_ARG_INVALID);
        CHECK (PtlLEUnlink (handle) == PTL_ARG_INVALID);
    }
    else {
        CHECK (PtlMEAppend (end->ni, index, &me, PTL_PRIORITY_LIST, NULL,
                            &handle)
               == PTL_ARG_INVALID);
        CHECK (PtlMESearch (end->ni, index, &me, PTL_SEARCH_ONLY, NULL)
               == PTL_ARG_INVALID);
        CHECK (PtlMEUnlink (handle) == PTL_ARG_INVALID);
    }
    CHECK (entry_unlink (handle) == PTL_OK);
    CHECK (entry_unlink (handle) == PTL_ARG_INVALID);
}

/* What is allowed is every option at once, and vectors. */
static void accepted (const struct end *end, ptl_pt_index_t index)
{
    unsigned all = PTL_IOVEC;
    ptl_iovec_t pieces[2] = { { NULL, 0 }, { &all, sizeof (all) } };

    for (unsigned bit = 1; bit <= 15; bit++)
        all |= 1u << bit;
    if (IS_MATCHING)
        all |= PTL_ME_MANAGE_LOCAL | PTL_ME_NO_TRUNCATE | PTL_ME_MAY_ALIGN
            | PTL_ME_LOCAL_INC_UH_RLENGTH;
    entry = entry_of (pieces, 2, all); /* counting without a counter, too */
    CHECK (append (end, index, PTL_PRIORITY_LIST) == PTL_OK);
    CHECK (entry_unlink (handle) == PTL_OK);
    CHECK (append (end, index, PTL_OVERFLOW_LIST) == PTL_OK);
    CHECK (entry_unlink (handle) == PTL_OK);
    CHECK (search (end, index) == PTL_OK);
    entry = entry_of (NULL, 0, PTL_IOVEC);
    CHECK (append (end, index, PTL_PRIORITY_LIST) == PTL_OK);
    CHECK (entry_unlink (handle) == PTL_OK);
}

int main (void)
{
    static const ptl_ni_limits_t limits = { .max_iovecs = 2 };
    struct end ends[2];
    ptl_handle_ct_t ct, foreign;
    ptl_handle_eq_t eq;
    ptl_pt_index_t index;

    before_init ();
    kinds_open (ends, 2, 16, &limits);
    CHECK (PtlCTAlloc (ends[0].ni, &ct) == PTL_OK);
    CHECK (PtlCTAlloc (ends[1].ni, &foreign) == PTL_OK);
    index = kinds_table (&ends[0], 0, 64, &eq);
    arguments (&ends[0], index, ct);
    entries (&ends[0], index, foreign);
    other_sort (&ends[0], index);
    accepted (&ends[0], index);
    CHECK (PtlPTFree (ends[0].ni, index) == PTL_OK);
    kinds_close (ends, 2);
    return 0;
}
