/* PTL_PT_FLOWCTRL, PTL_EVENT_PT_DISABLED (spec 2.6, 3.7.1, 3.13.1): no entry that matches,
 * no room for the events in the queue and no unexpected header turn the table
 * entry off. One PT_DISABLED event says so, for which the full queue has a place;
 * each message then fails with NI_PT_DISABLED, until PtlPTEnable. No event is
 * lost. An entry with EVENT_FLOWCTRL_DISABLE has it happen silently. Without flow
 * control the same message is dropped.
 * kinds: all */
#include "kinds.h"

#define ROOM 4

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static ptl_pt_index_t table;
static ptl_handle_md_t md;
static ptl_handle_eq_t eq;
static char memory[16];

static uint32_t put (void)
{
    return put_to (ends, 2, a, md, 4, b, table, 0, 0, 0).ni_fail;
}

static void is_off (void)
{
    ptl_event_t event = expect (eq, PTL_EVENT_PT_DISABLED);

    CHECK (event.pt_index == table);
    CHECK (event.ni_fail_type == PTL_NI_PT_DISABLED);
    CHECK (is_empty (eq));
    for (int i = 0; i < 3; i++)
        CHECK (put () == PTL_NI_PT_DISABLED);
    CHECK (is_empty (eq)); /* once is enough */
    CHECK (PtlPTEnable (b->ni, table) == PTL_OK);
}

static ptl_handle_me_t append (ptl_list_t list, unsigned options)
{
    entry_t entry = entry_of (memory, sizeof (memory),
                              PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE
                                  | options);

    return put_entry (b, table, &entry, list, NULL);
}

static void no_entry (void)
{
    CHECK (put () == PTL_NI_PT_DISABLED);
    is_off ();
}

static void full_queue (void)
{
    ptl_handle_me_t handle = append (PTL_PRIORITY_LIST, 0);

    for (int i = 0; i < ROOM; i++)
        CHECK (put () == PTL_NI_OK);
    CHECK (put () == PTL_NI_PT_DISABLED);
    for (int i = 0; i < ROOM; i++)
        expect (eq, PTL_EVENT_PUT); /* PTL_OK: none is lost */
    is_off ();
    CHECK (entry_unlink (handle) == PTL_OK);
}

/* PUT and AUTO_UNLINK: three entries need six places. */
static void room_for_all_events (void)
{
    for (int i = 0; i < 3; i++)
        append (PTL_PRIORITY_LIST, PTL_LE_USE_ONCE);
    CHECK (put () == PTL_NI_OK && put () == PTL_NI_OK);
    CHECK (put () == PTL_NI_PT_DISABLED);
    for (int i = 0; i < 2; i++) {
        expect (eq, PTL_EVENT_PUT);
        expect (eq, PTL_EVENT_AUTO_UNLINK);
    }
    is_off ();
    CHECK (put () == PTL_NI_OK);
    expect (eq, PTL_EVENT_PUT);
    expect (eq, PTL_EVENT_AUTO_UNLINK);
}

static void no_event_needs_no_room (void)
{
    ptl_handle_me_t handle
        = append (PTL_PRIORITY_LIST, PTL_LE_EVENT_COMM_DISABLE);

    for (int i = 0; i < 3 * ROOM; i++)
        CHECK (put () == PTL_NI_OK);
    CHECK (is_empty (eq) && entry_unlink (handle) == PTL_OK);
}

static void no_header (unsigned options)
{
    entry_t entry = entry_of (NULL, 0, PTL_LE_OP_PUT | options);
    ptl_handle_me_t handle
        = append (PTL_OVERFLOW_LIST, PTL_LE_EVENT_COMM_DISABLE | options);

    CHECK (put () == PTL_NI_OK && put () == PTL_NI_OK); /* the limit */
    CHECK (put () == PTL_NI_PT_DISABLED);
    if (options & PTL_LE_EVENT_FLOWCTRL_DISABLE) {
        CHECK (is_empty (eq) && put () == PTL_NI_PT_DISABLED);
        CHECK (PtlPTEnable (b->ni, table) == PTL_OK);
    }
    else
        is_off ();
    CHECK (entry_search (b->ni, table, &entry, PTL_SEARCH_DELETE, NULL)
           == PTL_OK);
    expect (eq, PTL_EVENT_PUT_OVERFLOW);
    expect (eq, PTL_EVENT_PUT_OVERFLOW);
    CHECK (is_empty (eq));
    CHECK (entry_unlink (handle) == PTL_OK);
}

/* PtlPTDisable is no failure: no event, for the call says it. */
static void disabled_by_its_user (void)
{
    append (PTL_PRIORITY_LIST, 0);
    CHECK (PtlPTDisable (b->ni, table) == PTL_OK);
    CHECK (PtlPTDisable (b->ni, table) == PTL_OK);
    CHECK (put () == PTL_NI_PT_DISABLED && is_empty (eq));
    CHECK (PtlPTEnable (b->ni, table) == PTL_OK);
    CHECK (PtlPTEnable (b->ni, table) == PTL_OK);
    CHECK (put () == PTL_NI_OK);
    expect (eq, PTL_EVENT_PUT);
}

int main (void)
{
    static const ptl_ni_limits_t limits = { .max_unexpected_headers = 2 };
    char source[] = "abcd";

    kinds_open (ends, 2, 64, &limits);
    table = kinds_table (b, PTL_PT_FLOWCTRL, ROOM, &eq);
    md = bind_memory (a, source, 4, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    no_entry ();
    full_queue ();
    room_for_all_events ();
    no_event_needs_no_room ();
    no_header (0);
    no_header (PTL_LE_EVENT_FLOWCTRL_DISABLE);
    disabled_by_its_user ();
    CHECK (status_of (b, PTL_SR_DROP_COUNT) == 0);
    table = kinds_table (b, 0, ROOM, &eq);
    CHECK (put () == PTL_NI_DROPPED && is_empty (eq));
    CHECK (status_of (b, PTL_SR_DROP_COUNT) == 1);
    kinds_close (ends, 2);
    return 0;
}
