/* PtlLESearch, PtlMESearch with PTL_SEARCH_ONLY (spec 3.11.4, 3.12.4): a SEARCH event in
 * any case, with what the message's header has and NI_OK, or NI_NO_MATCH. The
 * header stays, nothing is linked, no status register counts. Without USE_ONCE
 * each header that matches is told of, and nothing at the end. A counter counts
 * what is found, without an option, and as a failure that there is no more.
 * kinds: all */
#include "kinds.h"

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static ptl_pt_index_t table;
static ptl_handle_eq_t eq;
static char slab[16], user;

static ptl_handle_ct_t counter;

static void search (unsigned options, ptl_uid_t uid)
{
    entry_t entry = entry_of (NULL, 0, options);

    entry.uid = uid;
    entry.ct_handle = counter;
    CHECK (entry_search (b->ni, table, &entry, PTL_SEARCH_ONLY, &user)
           == PTL_OK);
}

/* How many the last searches have found, and how often there was no more. */
static void counted (uint64_t found, uint64_t ends)
{
    CHECK (counts (counter, found, ends));
    CHECK (PtlCTSet (counter, (ptl_ct_event_t){ 0, 0 }) == PTL_OK);
}

static void nothing (void)
{
    ptl_event_t event = expect (eq, PTL_EVENT_SEARCH);

    CHECK (event.ni_fail_type == PTL_NI_NO_MATCH && event.user_ptr == &user);
    CHECK (event.pt_index == table);
}

static void found (unsigned nth)
{
    ptl_event_t event = expect (eq, PTL_EVENT_SEARCH);

    CHECK (event.ni_fail_type == PTL_NI_OK && event.user_ptr == &user);
    CHECK (event.hdr_data == nth && event.rlength == 4 && event.mlength == 4);
    CHECK (event.start == slab + 4 * nth && event.remote_offset == 4 * nth);
    CHECK (is_from (&event, a) && event.pt_index == table);
    CHECK (event.uid == UID_OF_FIRST);
}

int main (void)
{
    char source[] = "abcd";
    entry_t entry = entry_of (slab, sizeof (slab),
                              PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE
                                  | PTL_LE_EVENT_COMM_DISABLE);
    ptl_handle_md_t md;
    unsigned once = PTL_LE_OP_PUT | PTL_LE_USE_ONCE;

    kinds_open (ends, 2, 16, NULL);
    CHECK (PtlCTAlloc (b->ni, &counter) == PTL_OK);
    table = kinds_table (b, 0, 16, &eq);
    md = bind_memory (a, source, 4, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    put_entry (b, table, &entry, PTL_OVERFLOW_LIST, NULL);
    search (once, PTL_UID_ANY);
    nothing ();
    counted (0, 1);
    for (unsigned i = 0; i < 3; i++)
        put_to (ends, 2, a, md, 4, b, table, ANY_BITS + i, 4 * i, i);
    search (once, PTL_UID_ANY);
    search (once, UID_OF_FIRST);
    found (0);
    found (0);
    counted (2, 0);
    search (PTL_LE_OP_PUT, PTL_UID_ANY);
    for (unsigned i = 0; i < 3; i++)
        found (i);
    CHECK (is_empty (eq));
    counted (3, 1);
    search (PTL_LE_OP_PUT, 77); /* of another user */
    nothing ();
    counted (0, 1);
    search (PTL_LE_OP_GET | PTL_LE_USE_ONCE, PTL_UID_ANY);
    nothing ();
    if (IS_MATCHING) {
        entry = entry_of (NULL, 0, once);
        entry.match_bits = ANY_BITS + 2;
        entry.ignore_bits = 0;
        CHECK (entry_search (b->ni, table, &entry, PTL_SEARCH_ONLY, &user)
               == PTL_OK);
        found (2);
        entry.match_bits = ANY_BITS + 3;
        CHECK (entry_search (b->ni, table, &entry, PTL_SEARCH_ONLY, &user)
               == PTL_OK);
        nothing ();
    }
    search (once | PTL_LE_EVENT_OVER_DISABLE, PTL_UID_ANY);
    search (once | PTL_LE_EVENT_SUCCESS_DISABLE, PTL_UID_ANY);
    CHECK (is_empty (eq));
    for (int i = 0; i <= PTL_SR_OPERATION_VIOLATIONS; i++)
        CHECK (status_of (b, (ptl_sr_index_t)i) == 0);
    kinds_close (ends, 2);
    return 0;
}
