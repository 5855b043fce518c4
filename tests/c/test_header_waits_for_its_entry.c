/* PtlLEAppend, PtlMEAppend (spec 3.11.2, 3.12.2, 3.13.1): a message that lands in the
 * overflow list posts PUT there and leaves a header. A USE_ONCE entry that is
 * appended to the priority list takes the oldest that matches: PUT_OVERFLOW
 * with its own user_ptr and all else as the message had it, `start` where the
 * bytes are; it is not linked (AUTO_UNLINK, no LINK) and its handle is gone.
 * The next message finds no entry but the overflow one.
 * kinds: all */
#include "kinds.h"

static char slab[64], source[] = "abcdefgh";

static void check (const ptl_event_t *event, const struct end *from,
                   ptl_pt_index_t index, const char *user_ptr, int nth)
{
    CHECK (event->ni_fail_type == PTL_NI_OK && event->pt_index == index);
    CHECK (event->user_ptr == user_ptr && is_from (event, from));
    CHECK (event->start == slab + 10 * nth && event->rlength == 8);
    CHECK (event->mlength == 8 && event->remote_offset == 10u * (unsigned)nth);
    CHECK (event->hdr_data == 70u + (unsigned)nth && event->uid == UID_OF_FIRST);
    CHECK (event->ptl_list == PTL_OVERFLOW_LIST);
    if (IS_MATCHING)
        CHECK (event->match_bits == ANY_BITS + (unsigned)nth);
    CHECK (memcmp (event->start, source, 8) == 0);
}

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    char one, two, big[8];
    entry_t entry;
    ptl_handle_me_t handle;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    ptl_pt_index_t index;
    ptl_event_t event;

    kinds_open (ends, 2, 16, NULL);
    index = kinds_table (b, 0, 16, &eq);
    md = bind_memory (a, source, 8, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    entry = entry_of (slab, sizeof (slab), PTL_LE_OP_PUT);
    put_entry (b, index, &entry, PTL_OVERFLOW_LIST, &one);
    event = expect (eq, PTL_EVENT_LINK);
    CHECK (event.user_ptr == &one && event.pt_index == index);
    CHECK (event.ni_fail_type == PTL_NI_OK);
    for (unsigned i = 0; i < 3; i++)
        put_to (ends, 2, a, md, 8, b, index, ANY_BITS + i, 10 * i, 70 + i);
    for (int i = 0; i < 3; i++) {
        event = expect (eq, PTL_EVENT_PUT);
        check (&event, a, index, &one, i);
    }
    entry = entry_of (big, sizeof (big), PTL_LE_OP_PUT | PTL_LE_USE_ONCE);
    for (int i = 0; i < 2; i++) {
        handle = put_entry (b, index, &entry, PTL_PRIORITY_LIST, &two);
        event = expect (eq, PTL_EVENT_PUT_OVERFLOW);
        check (&event, a, index, &two, i);
        event = expect (eq, PTL_EVENT_AUTO_UNLINK);
        CHECK (event.user_ptr == &two && event.pt_index == index);
        CHECK (entry_unlink (handle) == PTL_ARG_INVALID);
    }
    CHECK (is_empty (eq));
    put_to (ends, 2, a, md, 8, b, index, ANY_BITS + 3, 30, 73);
    event = expect (eq, PTL_EVENT_PUT);
    check (&event, a, index, &one, 3);
    if (IS_MATCHING) { /* not the oldest: the one that matches */
        entry.match_bits = ANY_BITS + 3;
        entry.ignore_bits = 0;
        put_entry (b, index, &entry, PTL_PRIORITY_LIST, &two);
        event = expect (eq, PTL_EVENT_PUT_OVERFLOW);
        check (&event, a, index, &two, 3);
        expect (eq, PTL_EVENT_AUTO_UNLINK);
        put_entry (b, index, &entry, PTL_PRIORITY_LIST, &two);
        expect (eq, PTL_EVENT_LINK); /* it has been taken */
    }
    CHECK (is_empty (eq));
    kinds_close (ends, 2);
    return 0;
}
