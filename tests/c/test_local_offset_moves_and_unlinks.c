/* PTL_ME_MANAGE_LOCAL, min_free, PTL_ME_NO_TRUNCATE, PTL_ME_LOCAL_INC_UH_RLENGTH (spec
 * 3.12.1): each message moves the entry's own offset by its length; with less
 * than min_free left the entry unlinks itself; the initiator's offset is only
 * reported in the event. An entry that may not truncate does not match a
 * message that does not fit. With LOCAL_INC_UH_RLENGTH the length of a header
 * that the entry takes moves the offset, too, and may use it up before it is
 * linked.
 * kinds: matching */
#include "kinds.h"

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static ptl_handle_md_t md;
static ptl_pt_index_t table;
static ptl_handle_eq_t eq;
static char source[64], memory[64], slab[64];

static struct ptlx_event put (size_t length, uint64_t offset)
{
    return put_to (ends, 2, a, md, length, b, table, 0, offset, 0);
}

static ptl_handle_me_t append (size_t size, size_t min_free, unsigned options,
                               void *user_ptr)
{
    ptl_me_t me = entry_of (memory, size,
                            PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE
                                | PTL_ME_MANAGE_LOCAL | options);

    me.min_free = min_free;
    return put_entry (b, table, &me, PTL_PRIORITY_LIST, user_ptr);
}

static void check (void *start, uint64_t mlength, uint64_t rlength,
                   uint64_t remote_offset)
{
    ptl_event_t event = expect (eq, PTL_EVENT_PUT);

    CHECK (event.start == start && event.mlength == mlength);
    CHECK (event.rlength == rlength && event.remote_offset == remote_offset);
}

static void moves (void)
{
    ptl_handle_me_t handle = append (20, 0, 0, NULL);

    CHECK (put (8, 33).remote_offset == 0); /* used at the target */
    check (memory, 8, 8, 33);
    CHECK (put (8, 33).remote_offset == 8);
    check (memory + 8, 8, 8, 33);
    CHECK (put (8, 0).mlength == 4);
    check (memory + 16, 4, 8, 0);
    CHECK (put (8, 0).mlength == 0); /* full, and min_free is 0: it stays */
    check (memory + 20, 0, 8, 0);
    CHECK (is_empty (eq) && PtlMEUnlink (handle) == PTL_OK);
}

static void unlinks (void)
{
    char user;
    ptl_handle_me_t handle = append (20, 5, 0, &user);

    put (8, 0);
    put (7, 0); /* 5 are left, not less */
    check (memory, 8, 8, 0);
    check (memory + 8, 7, 7, 0);
    CHECK (is_empty (eq));
    put (1, 0);
    check (memory + 15, 1, 1, 0);
    CHECK (expect (eq, PTL_EVENT_AUTO_UNLINK).user_ptr == &user);
    CHECK (PtlMEUnlink (handle) == PTL_ARG_INVALID);
    CHECK (put (1, 0).ni_fail == PTL_NI_DROPPED);
}

static void does_not_truncate (void)
{
    char one, two;
    ptl_handle_me_t first = append (10, 0, PTL_ME_NO_TRUNCATE, &one);
    ptl_me_t me = entry_of (slab, 6, PTL_ME_OP_PUT | PTL_ME_NO_TRUNCATE
                                | PTL_ME_EVENT_LINK_DISABLE);
    ptl_handle_me_t second
        = put_entry (b, table, &me, PTL_PRIORITY_LIST, &two);

    put (6, 0);
    CHECK (expect (eq, PTL_EVENT_PUT).user_ptr == &one);
    put (6, 0); /* 4 are left there */
    CHECK (expect (eq, PTL_EVENT_PUT).user_ptr == &two);
    CHECK (put (6, 1).ni_fail == PTL_NI_DROPPED);
    put (4, 1);
    CHECK (expect (eq, PTL_EVENT_PUT).user_ptr == &one);
    CHECK (PtlMEUnlink (first) == PTL_OK && PtlMEUnlink (second) == PTL_OK);
}

/* Two headers of 8 bytes, of which 4 and 0 were kept. */
static ptl_handle_me_t leave_headers (void)
{
    ptl_me_t me = entry_of (slab, 4,
                            PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE
                                | PTL_ME_EVENT_COMM_DISABLE
                                | PTL_ME_MANAGE_LOCAL);
    ptl_handle_me_t handle
        = put_entry (b, table, &me, PTL_OVERFLOW_LIST, NULL);

    CHECK (put (8, 0).mlength == 4);
    CHECK (put (8, 0).mlength == 0);
    return handle;
}

static void headers_count (void)
{
    ptl_handle_me_t over = leave_headers (), handle;
    char user;

    handle = append (20, 4, PTL_ME_LOCAL_INC_UH_RLENGTH, &user);
    expect (eq, PTL_EVENT_PUT_OVERFLOW);
    CHECK (expect (eq, PTL_EVENT_PUT_OVERFLOW).mlength == 0);
    put (1, 0); /* linked: 4 are left */
    check (memory + 16, 1, 1, 0);
    CHECK (expect (eq, PTL_EVENT_AUTO_UNLINK).user_ptr == &user);
    CHECK (PtlMEUnlink (over) == PTL_OK);

    over = leave_headers ();
    handle = append (20, 13, PTL_ME_LOCAL_INC_UH_RLENGTH, &user);
    expect (eq, PTL_EVENT_PUT_OVERFLOW);
    CHECK (expect (eq, PTL_EVENT_AUTO_UNLINK).user_ptr == &user);
    CHECK (PtlMEUnlink (handle) == PTL_ARG_INVALID);
    CHECK (PtlMEUnlink (over) == PTL_IN_USE); /* one header is left */
    handle = append (20, 0, 0, &user);
    expect (eq, PTL_EVENT_PUT_OVERFLOW);
    put (2, 0); /* without the option it begins at 0 */
    check (memory, 2, 2, 0);
    CHECK (PtlMEUnlink (handle) == PTL_OK && PtlMEUnlink (over) == PTL_OK);

    over = leave_headers (); /* a header too long for it does not match */
    handle = append (7, 0, PTL_ME_NO_TRUNCATE, &user);
    CHECK (is_empty (eq) && PtlMEUnlink (handle) == PTL_OK);
    handle = append (8, 0, PTL_ME_NO_TRUNCATE, &user);
    expect (eq, PTL_EVENT_PUT_OVERFLOW);
    expect (eq, PTL_EVENT_PUT_OVERFLOW);
    CHECK (PtlMEUnlink (handle) == PTL_OK && PtlMEUnlink (over) == PTL_OK);
}

int main (void)
{
    kinds_open (ends, 2, 64, NULL);
    table = kinds_table (b, 0, 16, &eq);
    md = bind_memory (a, source, sizeof (source), PTL_MD_EVENT_SEND_DISABLE,
                      PTL_CT_NONE);
    moves ();
    unlinks ();
    does_not_truncate ();
    headers_count ();
    CHECK (is_empty (eq));
    kinds_close (ends, 2);
    return 0;
}
