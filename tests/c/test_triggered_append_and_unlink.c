/* PtlTriggeredLEAppend, PtlTriggeredMEAppend, PtlTriggeredLEUnlink, PtlTriggeredMEUnlink:
 * the entry is judged at the call and linked when the counter reaches the
 * threshold, successes and failures together; it takes headers then. Operations
 * with the same threshold come in the order of their calls. Cancelling, or
 * unlinking before, ends an entry that waits. An unlink of what is gone by then
 * has no effect. All count against max_triggered_ops (PTL_NO_SPACE); a list that is
 * full at the call is PTL_LIST_TOO_LONG.
 * kinds: all */
#include "kinds.h"

#define MOST 3

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static ptl_pt_index_t table;
static ptl_handle_md_t md;
static ptl_handle_eq_t eq;
static ptl_handle_ct_t ct;
static char memory[16];

static uint32_t put (void)
{
    return put_to (ends, 2, a, md, 4, b, table, 0, 0, 0).ni_fail;
}

static int append (ptl_list_t list, unsigned options, ptl_size_t threshold,
                   void *user_ptr, ptl_handle_me_t *handle)
{
    entry_t entry = entry_of (memory, 4, PTL_LE_OP_PUT | options);

    return entry_append_triggered (b->ni, table, &entry, list, user_ptr,
                                   handle, ct, threshold);
}

static void reach (uint64_t success, uint64_t failure)
{
    ptl_ct_event_t value = { success, failure };

    CHECK (PtlCTSet (ct, value) == PTL_OK);
}

static void linked_when_reached (void)
{
    ptl_handle_me_t handle, other;
    char one, two;

    reach (0, 0);
    CHECK (append (PTL_PRIORITY_LIST, 0, 2, &one, &handle) == PTL_OK);
    CHECK (append (PTL_PRIORITY_LIST, 0, 2, &two, &other) == PTL_OK);
    CHECK (is_empty (eq) && put () == PTL_NI_DROPPED);
    CHECK (PtlPTFree (b->ni, table) == PTL_PT_IN_USE);
    reach (1, 0);
    CHECK (is_empty (eq));
    reach (1, 1);
    CHECK (expect (eq, PTL_EVENT_LINK).user_ptr == &one);
    CHECK (expect (eq, PTL_EVENT_LINK).user_ptr == &two);
    CHECK (put () == PTL_NI_OK);
    CHECK (expect (eq, PTL_EVENT_PUT).user_ptr == &one);
    CHECK (entry_unlink_triggered (handle, ct, 3) == PTL_OK);
    CHECK (entry_unlink_triggered (other, ct, 4) == PTL_OK);
    CHECK (put () == PTL_NI_OK);
    CHECK (expect (eq, PTL_EVENT_PUT).user_ptr == &one);
    reach (3, 0);
    CHECK (entry_unlink (handle) == PTL_ARG_INVALID && is_empty (eq));
    CHECK (put () == PTL_NI_OK);
    CHECK (expect (eq, PTL_EVENT_PUT).user_ptr == &two);
    CHECK (entry_unlink (other) == PTL_OK);
    reach (4, 0); /* it is gone: no effect */
    CHECK (append (PTL_PRIORITY_LIST, PTL_LE_USE_ONCE, 4, &one, &handle)
           == PTL_OK); /* reached already */
    expect (eq, PTL_EVENT_LINK);
    CHECK (entry_unlink (handle) == PTL_OK);
}

static void takes_headers (void)
{
    entry_t entry = entry_of (memory, 4, PTL_LE_OP_PUT | PTL_LE_USE_ONCE
                                  | PTL_LE_EVENT_COMM_DISABLE);
    ptl_handle_me_t over, handle;
    char one, two;

    reach (0, 0);
    over = put_entry (b, table, &entry, PTL_OVERFLOW_LIST, &one);
    expect (eq, PTL_EVENT_LINK);
    CHECK (append (PTL_PRIORITY_LIST, PTL_LE_USE_ONCE, 1, &two, &handle)
           == PTL_OK);
    CHECK (put () == PTL_NI_OK); /* it comes before the trigger */
    expect (eq, PTL_EVENT_AUTO_UNLINK);
    CHECK (entry_unlink_triggered (over, ct, 1) == PTL_OK);
    reach (1, 0);
    CHECK (expect (eq, PTL_EVENT_PUT_OVERFLOW).user_ptr == &two);
    CHECK (expect (eq, PTL_EVENT_AUTO_FREE).user_ptr == &one);
    CHECK (expect (eq, PTL_EVENT_AUTO_UNLINK).user_ptr == &two);
    CHECK (entry_unlink (handle) == PTL_ARG_INVALID && is_empty (eq));
}

/* What is in use is unlinked at once and free when its last header is. */
static void unlink_in_use (void)
{
    entry_t entry = entry_of (memory, 4, PTL_LE_OP_PUT
                                  | PTL_LE_EVENT_LINK_DISABLE
                                  | PTL_LE_EVENT_COMM_DISABLE);
    ptl_handle_me_t over;

    reach (0, 0);
    over = put_entry (b, table, &entry, PTL_OVERFLOW_LIST, NULL);
    CHECK (put () == PTL_NI_OK);
    CHECK (entry_unlink_triggered (over, ct, 1) == PTL_OK);
    reach (1, 0);
    CHECK (entry_unlink (over) == PTL_IN_USE && put () == PTL_NI_DROPPED);
    entry.options |= PTL_LE_USE_ONCE;
    CHECK (entry_search (b->ni, table, &entry, PTL_SEARCH_DELETE, NULL)
           == PTL_OK);
    expect (eq, PTL_EVENT_PUT_OVERFLOW);
    CHECK (entry_unlink (over) == PTL_ARG_INVALID && is_empty (eq));
}

/* What is judged at the call is the list as it is then. */
static void full_list (void)
{
    entry_t entry = entry_of (NULL, 0, PTL_LE_EVENT_LINK_DISABLE);
    ptl_handle_me_t handles[4], none;

    reach (0, 0);
    for (int i = 0; i < 4; i++)
        handles[i] = put_entry (b, table, &entry, PTL_PRIORITY_LIST, NULL);
    CHECK (append (PTL_PRIORITY_LIST, 0, 1, NULL, &none)
           == PTL_LIST_TOO_LONG);
    for (int i = 0; i < 4; i++)
        CHECK (entry_unlink (handles[i]) == PTL_OK);
}

static void cancelled (void)
{
    ptl_handle_me_t handles[MOST], none;

    reach (0, 0);
    for (int i = 0; i < MOST; i++)
        CHECK (append (PTL_PRIORITY_LIST, 0, 1, NULL, &handles[i]) == PTL_OK);
    CHECK (append (PTL_PRIORITY_LIST, 0, 1, NULL, &none) == PTL_NO_SPACE);
    CHECK (entry_unlink_triggered (handles[0], ct, 1) == PTL_NO_SPACE);
    CHECK (entry_unlink (handles[1]) == PTL_OK); /* makes room */
    CHECK (entry_unlink (handles[1]) == PTL_ARG_INVALID);
    CHECK (entry_unlink_triggered (handles[0], ct, 2) == PTL_OK);
    CHECK (PtlCTCancelTriggered (ct) == PTL_OK);
    for (int i = 0; i < MOST; i++)
        CHECK (entry_unlink (handles[i]) == PTL_ARG_INVALID);
    reach (9, 0);
    CHECK (is_empty (eq) && put () == PTL_NI_DROPPED);
    reach (0, 0);
    for (int i = 0; i < MOST; i++)
        CHECK (append (PTL_PRIORITY_LIST, 0, 1, NULL, &handles[i]) == PTL_OK);
    CHECK (entry_unlink_triggered (handles[0], ct, 1) == PTL_NO_SPACE);
    CHECK (PtlCTFree (ct) == PTL_OK); /* cancels, too */
    CHECK (PtlCTAlloc (b->ni, &ct) == PTL_OK);
    CHECK (append (PTL_PRIORITY_LIST, 0, 1, NULL, &none) == PTL_OK);
}

int main (void)
{
    static const ptl_ni_limits_t limits
        = { .max_triggered_ops = MOST, .max_list_size = 4 };
    char source[] = "abcd";

    kinds_open (ends, 2, 64, &limits);
    table = kinds_table (b, 0, 16, &eq);
    CHECK (PtlCTAlloc (b->ni, &ct) == PTL_OK);
    md = bind_memory (a, source, 4, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    linked_when_reached ();
    takes_headers ();
    unlink_in_use ();
    full_list ();
    cancelled (); /* leaves one that waits: the interface ends with it */
    kinds_close (ends, 2);
    return 0;
}
