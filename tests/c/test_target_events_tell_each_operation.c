/* ptl_event_t at the target (spec 3.13.1, 3.13.4): GET, PUT, ATOMIC and FETCH_ATOMIC on an
 * entry of the priority list, and GET_OVERFLOW and so on for who takes the header
 * that they left in the overflow list; with start, lengths, the offset that the
 * initiator named, its id and user, match bits, hdr_data, list, and for atomic
 * operations what was computed on what. An entry takes only what OP_PUT and OP_GET
 * let it: an operation that fetches needs both. Each counts under CT_COMM.
 * kinds: all */
#include "kinds.h"

#define OFFSET 8

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static ptl_pt_index_t table;
static ptl_handle_md_t md;
static ptl_handle_eq_t eq;
static uint64_t data[2] = { 5, 5 }, memory[4];

static const ptl_event_kind_t kinds[] = {
    PTL_EVENT_PUT, PTL_EVENT_GET, PTL_EVENT_ATOMIC, PTL_EVENT_FETCH_ATOMIC,
    PTL_EVENT_FETCH_ATOMIC, /* PtlSwap */
};
static const ptl_event_kind_t overflows[] = {
    PTL_EVENT_PUT_OVERFLOW,           PTL_EVENT_GET_OVERFLOW,
    PTL_EVENT_ATOMIC_OVERFLOW,        PTL_EVENT_FETCH_ATOMIC_OVERFLOW,
    PTL_EVENT_FETCH_ATOMIC_OVERFLOW,
};
#define OPERATIONS 5

static int call (int which)
{
    uint64_t bits = ANY_BITS + (unsigned)which, hdr = 90 + (unsigned)which;

    switch (which) {
    case 0:
        return PtlPut (md, 0, 8, PTL_ACK_REQ, b->id, table, bits, OFFSET, NULL,
                       hdr);
    case 1:
        return PtlGet (md, 8, 8, b->id, table, bits, OFFSET, NULL);
    case 2:
        return PtlAtomic (md, 0, 8, PTL_ACK_REQ, b->id, table, bits, OFFSET,
                          NULL, hdr, PTL_SUM, PTL_INT64_T);
    case 3:
        return PtlFetchAtomic (md, 8, md, 0, 8, b->id, table, bits, OFFSET,
                               NULL, hdr, PTL_BOR, PTL_UINT64_T);
    default:
        return PtlSwap (md, 8, md, 0, 8, b->id, table, bits, OFFSET, NULL, hdr,
                        NULL, PTL_SWAP, PTL_INT32_T);
    }
}

/* Do it; says what its ack or reply says. */
static uint32_t run (int which)
{
    uint32_t answer = which == 0 || which == 2 ? PTL_EVENT_ACK
                                               : PTL_EVENT_REPLY;
    int before = count_of (a, answer);

    CHECK (call (which) == PTL_OK);
    pump_until (ends, 2, a, answer, before + 1);
    return event_of (a, answer, before)->ni_fail;
}

static void check (const ptl_event_t *event, int which, void *user_ptr,
                   ptl_list_t list)
{
    CHECK (event->ni_fail_type == PTL_NI_OK && event->user_ptr == user_ptr);
    CHECK (event->start == memory + 1 && event->remote_offset == OFFSET);
    CHECK (event->rlength == 8 && event->mlength == 8);
    CHECK (event->pt_index == table && event->ptl_list == list);
    CHECK (is_from (event, a) && event->uid == UID_OF_FIRST);
    if (IS_MATCHING)
        CHECK (event->match_bits == ANY_BITS + (unsigned)which);
    if (which != 1)
        CHECK (event->hdr_data == 90u + (unsigned)which);
    if (which == 2)
        CHECK (event->atomic_operation == PTL_SUM
               && event->atomic_type == PTL_INT64_T);
    if (which == 3)
        CHECK (event->atomic_operation == PTL_BOR
               && event->atomic_type == PTL_UINT64_T);
    if (which == 4)
        CHECK (event->atomic_operation == PTL_SWAP
               && event->atomic_type == PTL_INT32_T);
}

static void priority (void)
{
    entry_t entry = entry_of (memory, sizeof (memory),
                              PTL_LE_OP_PUT | PTL_LE_OP_GET
                                  | PTL_LE_EVENT_LINK_DISABLE
                                  | PTL_LE_EVENT_CT_COMM);
    ptl_handle_me_t handle;
    char user;

    CHECK (PtlCTAlloc (b->ni, &entry.ct_handle) == PTL_OK);
    handle = put_entry (b, table, &entry, PTL_PRIORITY_LIST, &user);
    for (int which = 0; which < OPERATIONS; which++) {
        ptl_event_t event;

        CHECK (run (which) == PTL_NI_OK);
        event = expect (eq, kinds[which]);
        check (&event, which, &user, PTL_PRIORITY_LIST);
    }
    CHECK (is_empty (eq) && counts (entry.ct_handle, OPERATIONS, 0));
    CHECK (entry_unlink (handle) == PTL_OK);
}

static void overflow (void)
{
    entry_t entry = entry_of (memory, sizeof (memory),
                              PTL_LE_OP_PUT | PTL_LE_OP_GET
                                  | PTL_LE_EVENT_LINK_DISABLE);
    ptl_handle_me_t over;
    char one, two;

    over = put_entry (b, table, &entry, PTL_OVERFLOW_LIST, &one);
    entry.options |= PTL_LE_USE_ONCE | PTL_LE_EVENT_UNLINK_DISABLE
        | PTL_LE_EVENT_CT_OVERFLOW;
    entry.start = NULL;
    entry.length = 0;
    CHECK (PtlCTAlloc (b->ni, &entry.ct_handle) == PTL_OK);
    for (int which = 0; which < OPERATIONS; which++) {
        ptl_event_t event;

        CHECK (run (which) == PTL_NI_OK);
        event = expect (eq, kinds[which]);
        check (&event, which, &one, PTL_OVERFLOW_LIST);
        CHECK (entry_search (b->ni, table, &entry, PTL_SEARCH_ONLY, &two)
               == PTL_OK);
        event = expect (eq, PTL_EVENT_SEARCH);
        check (&event, which, &two, PTL_OVERFLOW_LIST);
        put_entry (b, table, &entry, PTL_PRIORITY_LIST, &two);
        event = expect (eq, overflows[which]);
        check (&event, which, &two, PTL_OVERFLOW_LIST);
    }
    CHECK (is_empty (eq) && counts (entry.ct_handle, 2 * OPERATIONS, 0));
    CHECK (entry_unlink (over) == PTL_OK);
}

/* What the options let in: a bit for each operation. */
static void permitted (unsigned options, unsigned expected)
{
    entry_t entry = entry_of (memory, sizeof (memory),
                              options | PTL_LE_EVENT_LINK_DISABLE);
    ptl_handle_me_t handle
        = put_entry (b, table, &entry, PTL_PRIORITY_LIST, NULL);
    int violations = status_of (b, PTL_SR_OPERATION_VIOLATIONS);

    for (int which = 0; which < OPERATIONS; which++) {
        bool is_let_in = expected & 1u << which;

        CHECK (run (which)
               == (is_let_in ? PTL_NI_OK : PTL_NI_OP_VIOLATION));
        if (is_let_in)
            expect (eq, kinds[which]);
        violations += !is_let_in;
        CHECK (status_of (b, PTL_SR_OPERATION_VIOLATIONS) == violations);
    }
    CHECK (is_empty (eq) && entry_unlink (handle) == PTL_OK);
}

int main (void)
{
    kinds_open (ends, 2, 64, NULL);
    table = kinds_table (b, 0, 16, &eq);
    md = bind_memory (a, data, sizeof (data), PTL_MD_EVENT_SEND_DISABLE,
                      PTL_CT_NONE);
    priority ();
    overflow ();
    permitted (PTL_LE_OP_PUT, 1 << 0 | 1 << 2);
    permitted (PTL_LE_OP_GET, 1 << 1);
    permitted (PTL_LE_OP_PUT | PTL_LE_OP_GET, 31);
    permitted (0, 0);
    kinds_close (ends, 2);
    return 0;
}
