/* max_unexpected_headers (spec 3.6.1), PTL_LE_UNEXPECTED_HDR_DISABLE (3.11.1): the message
 * that finds no header left is dropped (DROP_COUNT, NI_DROPPED) where the table
 * entry has no flow control, and turns it off (PT_DISABLED, NI_PT_DISABLED)
 * where it has. Entries that leave no header need none, and nothing is found
 * of what landed in them. A header that was taken can be left again.
 * kinds: all */
#include "kinds.h"

#define HEADERS 3

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static ptl_handle_md_t md;
static char slab[64];

static uint32_t put (ptl_pt_index_t index)
{
    return put_to (ends, 2, a, md, 4, b, index, 0, 0, 0).ni_fail;
}

static void take_one (ptl_pt_index_t index)
{
    entry_t entry = entry_of (NULL, 0, PTL_LE_OP_PUT | PTL_LE_USE_ONCE
                                  | PTL_LE_EVENT_UNLINK_DISABLE);

    put_entry (b, index, &entry, PTL_PRIORITY_LIST, NULL);
}

static void fill (ptl_pt_index_t index, ptl_handle_eq_t eq)
{
    for (int i = 0; i < HEADERS; i++) {
        CHECK (put (index) == PTL_NI_OK);
        expect (eq, PTL_EVENT_PUT);
    }
}

static void empty (ptl_pt_index_t index, ptl_handle_eq_t eq)
{
    for (int i = 0; i < HEADERS; i++) {
        take_one (index);
        expect (eq, PTL_EVENT_PUT_OVERFLOW);
    }
}

int main (void)
{
    static const ptl_ni_limits_t limits = { .max_unexpected_headers = HEADERS };
    char source[] = "abcd";
    entry_t entry = entry_of (slab, sizeof (slab),
                              PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE);
    ptl_pt_index_t plain, controlled, none;
    ptl_handle_eq_t plain_eq, eq, none_eq;
    ptl_event_t event;

    kinds_open (ends, 2, 16, &limits);
    md = bind_memory (a, source, 4, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    plain = kinds_table (b, 0, 16, &plain_eq);
    controlled = kinds_table (b, PTL_PT_FLOWCTRL, 16, &eq);
    none = kinds_table (b, 0, 16, &none_eq);
    put_entry (b, plain, &entry, PTL_OVERFLOW_LIST, NULL);
    put_entry (b, controlled, &entry, PTL_OVERFLOW_LIST, NULL);
    entry.options |= PTL_LE_UNEXPECTED_HDR_DISABLE;
    put_entry (b, none, &entry, PTL_OVERFLOW_LIST, NULL);

    fill (plain, plain_eq);
    CHECK (put (plain) == PTL_NI_DROPPED);
    CHECK (status_of (b, PTL_SR_DROP_COUNT) == 1);
    CHECK (is_empty (plain_eq));

    CHECK (put (controlled) == PTL_NI_PT_DISABLED); /* all are elsewhere */
    event = expect (eq, PTL_EVENT_PT_DISABLED);
    CHECK (event.pt_index == controlled);
    CHECK (put (controlled) == PTL_NI_PT_DISABLED && is_empty (eq));
    CHECK (status_of (b, PTL_SR_DROP_COUNT) == 1);

    for (int i = 0; i < 2 * HEADERS; i++) {
        CHECK (put (none) == PTL_NI_OK);
        CHECK (expect (none_eq, PTL_EVENT_PUT).ptl_list == PTL_OVERFLOW_LIST);
    }
    entry = entry_of (NULL, 0, PTL_LE_OP_PUT | PTL_LE_USE_ONCE);
    CHECK (entry_search (b->ni, none, &entry, PTL_SEARCH_ONLY, NULL)
           == PTL_OK);
    CHECK (expect (none_eq, PTL_EVENT_SEARCH).ni_fail_type
           == PTL_NI_NO_MATCH);

    empty (plain, plain_eq);
    CHECK (PtlPTEnable (b->ni, controlled) == PTL_OK);
    fill (controlled, eq);
    CHECK (put (controlled) == PTL_NI_PT_DISABLED);
    expect (eq, PTL_EVENT_PT_DISABLED); /* one more, for it was on again */
    empty (controlled, eq);
    CHECK (is_empty (eq));
    kinds_close (ends, 2);
    return 0;
}
