/* PtlTriggeredLEAppend, PtlTriggeredMEAppend: a place in the list is kept for the
 * entry from the call on, so that no list is longer than max_list_size when it is
 * linked, when nobody could be told. The place is free again when the append is
 * cancelled, the entry is unlinked, or a header is all that it takes.
 * kinds: all */
#include "kinds.h"

#define MOST 2

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static ptl_pt_index_t table;
static ptl_handle_eq_t eq;
static ptl_handle_ct_t ct;
static ptl_handle_md_t md;
static char memory[8];

static int append (ptl_list_t list, unsigned options, ptl_handle_me_t *handle)
{
    entry_t entry = entry_of (memory, 8, PTL_LE_OP_PUT | options);

    return entry_append (b->ni, table, &entry, list, NULL, handle);
}

static int append_later (ptl_list_t list, unsigned options,
                         ptl_handle_me_t *handle)
{
    entry_t entry = entry_of (memory, 8, PTL_LE_OP_PUT | options);

    return entry_append_triggered (b->ni, table, &entry, list, NULL, handle,
                                   ct, 1);
}

static bool is_full (ptl_list_t list)
{
    ptl_handle_me_t none;
    int rc = append (list, PTL_LE_EVENT_LINK_DISABLE, &none);

    if (rc == PTL_OK)
        CHECK (entry_unlink (none) == PTL_OK);
    else
        CHECK (rc == PTL_LIST_TOO_LONG
               && append_later (list, 0, &none) == PTL_LIST_TOO_LONG);
    return rc != PTL_OK;
}

static void reach (uint64_t count)
{
    CHECK (PtlCTSet (ct, (ptl_ct_event_t){ count, 0 }) == PTL_OK);
}

static void linked (ptl_list_t list)
{
    ptl_handle_me_t now, later;

    reach (0);
    CHECK (append_later (list, 0, &later) == PTL_OK);
    CHECK (!is_full (list));
    CHECK (append (list, 0, &now) == PTL_OK);
    expect (eq, PTL_EVENT_LINK);
    CHECK (is_full (list));
    CHECK (!is_full (list == PTL_PRIORITY_LIST ? PTL_OVERFLOW_LIST
                                               : PTL_PRIORITY_LIST));
    reach (1);
    expect (eq, PTL_EVENT_LINK);
    CHECK (is_full (list));
    CHECK (entry_unlink (now) == PTL_OK && !is_full (list));
    CHECK (entry_unlink (later) == PTL_OK && !is_full (list));
}

static void given_up (ptl_list_t list)
{
    ptl_handle_me_t handles[MOST];

    reach (0);
    for (int i = 0; i < MOST; i++)
        CHECK (append_later (list, 0, &handles[i]) == PTL_OK);
    CHECK (is_full (list));
    CHECK (entry_unlink (handles[0]) == PTL_OK && !is_full (list));
    CHECK (append_later (list, 0, &handles[0]) == PTL_OK && is_full (list));
    CHECK (PtlCTCancelTriggered (ct) == PTL_OK && !is_full (list));
    for (int i = 0; i < MOST; i++)
        CHECK (append (list, 0, &handles[i]) == PTL_OK);
    CHECK (is_full (list));
    for (int i = 0; i < MOST; i++) {
        expect (eq, PTL_EVENT_LINK);
        CHECK (entry_unlink (handles[i]) == PTL_OK);
    }
}

static void spent_by_a_header (void)
{
    ptl_handle_me_t overflow, handles[MOST];

    reach (0);
    CHECK (append (PTL_OVERFLOW_LIST, PTL_LE_EVENT_LINK_DISABLE, &overflow)
           == PTL_OK);
    put_to (ends, 2, a, md, 4, b, table, 0, 0, 0);
    expect (eq, PTL_EVENT_PUT);
    for (int i = 0; i < MOST; i++)
        CHECK (append_later (PTL_PRIORITY_LIST, PTL_LE_USE_ONCE, &handles[i])
               == PTL_OK);
    reach (1);
    expect (eq, PTL_EVENT_PUT_OVERFLOW);
    expect (eq, PTL_EVENT_AUTO_UNLINK);
    expect (eq, PTL_EVENT_LINK);
    CHECK (!is_full (PTL_PRIORITY_LIST));
    CHECK (entry_unlink (handles[1]) == PTL_OK);
    CHECK (entry_unlink (overflow) == PTL_OK);
}

int main (void)
{
    ptl_ni_limits_t desired = { .max_list_size = MOST };

    kinds_open (ends, 2, 64, &desired);
    table = kinds_table (b, 0, 64, &eq);
    CHECK (PtlCTAlloc (b->ni, &ct) == PTL_OK);
    md = bind_memory (a, memory, sizeof (memory), 0, PTL_CT_NONE);
    linked (PTL_PRIORITY_LIST);
    linked (PTL_OVERFLOW_LIST);
    given_up (PTL_PRIORITY_LIST);
    given_up (PTL_OVERFLOW_LIST);
    spent_by_a_header ();
    CHECK (is_empty (eq));
    kinds_close (ends, 2);
    return 0;
}
