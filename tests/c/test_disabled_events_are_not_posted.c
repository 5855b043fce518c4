/* Options of an entry that disable events (spec 3.11.1, 3.12.1): COMM (the operation),
 * SUCCESS (operations and headers that went well), OVER (headers, searches),
 * LINK, UNLINK (AUTO_UNLINK and AUTO_FREE). A table entry without a queue posts
 * nothing at all, and everything else goes on.
 * kinds: all */
#include "kinds.h"

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static ptl_pt_index_t table;
static ptl_handle_md_t md;
static ptl_handle_eq_t eq;
static char memory[16], slab[16];

static ptl_handle_me_t append (ptl_list_t list, unsigned options)
{
    entry_t entry = entry_of (list == PTL_OVERFLOW_LIST ? slab : memory, 4,
                              PTL_LE_OP_PUT | options);

    return put_entry (b, table, &entry, list, NULL);
}

static void put (void)
{
    CHECK (put_to (ends, 2, a, md, 4, b, table, 0, 0, 0).ni_fail == PTL_NI_OK);
}

/* A header that was left without an event. */
static void leave_header (void)
{
    append (PTL_OVERFLOW_LIST,
            PTL_LE_USE_ONCE | PTL_LE_EVENT_LINK_DISABLE
                | PTL_LE_EVENT_UNLINK_DISABLE | PTL_LE_EVENT_COMM_DISABLE);
    put ();
    CHECK (is_empty (eq));
}

static void link_and_unlink (void)
{
    append (PTL_PRIORITY_LIST, PTL_LE_USE_ONCE | PTL_LE_EVENT_LINK_DISABLE);
    CHECK (is_empty (eq));
    put ();
    expect (eq, PTL_EVENT_PUT);
    expect (eq, PTL_EVENT_AUTO_UNLINK);
    append (PTL_PRIORITY_LIST, PTL_LE_USE_ONCE | PTL_LE_EVENT_UNLINK_DISABLE);
    expect (eq, PTL_EVENT_LINK);
    put ();
    expect (eq, PTL_EVENT_PUT);
    append (PTL_OVERFLOW_LIST,
            PTL_LE_USE_ONCE | PTL_LE_EVENT_UNLINK_DISABLE
                | PTL_LE_UNEXPECTED_HDR_DISABLE);
    expect (eq, PTL_EVENT_LINK);
    put ();
    expect (eq, PTL_EVENT_PUT);
    append (PTL_OVERFLOW_LIST, PTL_LE_USE_ONCE | PTL_LE_UNEXPECTED_HDR_DISABLE);
    expect (eq, PTL_EVENT_LINK);
    put ();
    expect (eq, PTL_EVENT_PUT);
    expect (eq, PTL_EVENT_AUTO_UNLINK);
    expect (eq, PTL_EVENT_AUTO_FREE);
    CHECK (is_empty (eq));
}

static void operations (void)
{
    append (PTL_PRIORITY_LIST, PTL_LE_USE_ONCE | PTL_LE_EVENT_COMM_DISABLE);
    expect (eq, PTL_EVENT_LINK);
    put ();
    expect (eq, PTL_EVENT_AUTO_UNLINK);
    append (PTL_PRIORITY_LIST, PTL_LE_USE_ONCE | PTL_LE_EVENT_SUCCESS_DISABLE);
    expect (eq, PTL_EVENT_LINK);
    put ();
    expect (eq, PTL_EVENT_AUTO_UNLINK);
    CHECK (is_empty (eq));
}

static void headers (void)
{
    static const unsigned disabled[]
        = { PTL_LE_EVENT_OVER_DISABLE, PTL_LE_EVENT_SUCCESS_DISABLE };

    for (int i = 0; i < 2; i++) {
        leave_header ();
        append (PTL_PRIORITY_LIST, PTL_LE_USE_ONCE | disabled[i]);
        expect (eq, PTL_EVENT_AUTO_UNLINK); /* taken, without a word */
        CHECK (is_empty (eq));
    }
    leave_header ();
    append (PTL_PRIORITY_LIST, PTL_LE_USE_ONCE | PTL_LE_EVENT_COMM_DISABLE
                | PTL_LE_EVENT_UNLINK_DISABLE);
    expect (eq, PTL_EVENT_PUT_OVERFLOW);
    CHECK (is_empty (eq));
}

static void without_a_queue (void)
{
    ptl_handle_me_t over;
    entry_t entry = entry_of (NULL, 0, PTL_LE_OP_PUT);

    CHECK (PtlPTAlloc (b->ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &table) == PTL_OK);
    over = append (PTL_OVERFLOW_LIST, 0);
    put ();
    put ();
    CHECK (entry_search (b->ni, table, &entry, PTL_SEARCH_ONLY, NULL)
           == PTL_OK);
    CHECK (entry_unlink (over) == PTL_IN_USE);
    CHECK (entry_search (b->ni, table, &entry, PTL_SEARCH_DELETE, NULL)
           == PTL_OK);
    CHECK (entry_unlink (over) == PTL_OK);
    append (PTL_PRIORITY_LIST, PTL_LE_USE_ONCE);
    memset (memory, 0, sizeof (memory));
    put ();
    CHECK (memory[0] == 'a');
    CHECK (PtlPTFree (b->ni, table) == PTL_OK);
}

int main (void)
{
    char source[] = "abcd";

    kinds_open (ends, 2, 64, NULL);
    table = kinds_table (b, 0, 64, &eq);
    md = bind_memory (a, source, 4, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    link_and_unlink ();
    operations ();
    headers ();
    CHECK (PtlPTFree (b->ni, table) == PTL_OK);
    without_a_queue ();
    CHECK (is_empty (eq));
    kinds_close (ends, 2);
    return 0;
}
