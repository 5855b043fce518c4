/* PTL_IOVEC (spec 3.10.1, 3.11.1): an entry whose memory is a vector has the length of all
 * pieces; offsets count through them, empty ones too; the vector itself is read
 * at the append only. It is truncated as other memory is, and (matching) its
 * own offset may move through the pieces.
 * kinds: all */
#include "kinds.h"

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    char source[] = "abcdefghij", one[4], two[3], three[4];
    ptl_iovec_t pieces[5] = {
        { NULL, 0 }, { one, 3 }, { NULL, 0 }, { two, 2 }, { three, 3 },
    };
    entry_t entry = entry_of (pieces, 5, PTL_LE_OP_PUT | PTL_IOVEC
                                  | PTL_LE_EVENT_LINK_DISABLE);
    ptl_handle_me_t handle;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    ptl_pt_index_t index;
    ptl_event_t event;

    kinds_open (ends, 2, 64, NULL);
    index = kinds_table (b, 0, 16, &eq);
    md = bind_memory (a, source, 10, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    memset (one, '-', 4);
    memset (two, '-', 3);
    memset (three, '-', 4);
    handle = put_entry (b, index, &entry, PTL_PRIORITY_LIST, NULL);
    memset (pieces, 0, sizeof (pieces)); /* it has been read */
    CHECK (put_to (ends, 2, a, md, 6, b, index, 0, 1, 0).mlength == 6);
    event = expect (eq, PTL_EVENT_PUT);
    CHECK (event.start == one + 1 && event.mlength == 6);
    CHECK (memcmp (one, "-ab-", 4) == 0 && memcmp (two, "cd-", 3) == 0);
    CHECK (memcmp (three, "ef--", 4) == 0);
    CHECK (put_to (ends, 2, a, md, 10, b, index, 0, 0, 0).mlength == 8);
    event = expect (eq, PTL_EVENT_PUT);
    CHECK (event.mlength == 8 && event.rlength == 10);
    CHECK (memcmp (one, "abc-", 4) == 0 && memcmp (two, "de-", 3) == 0);
    CHECK (memcmp (three, "fgh-", 4) == 0);
    CHECK (put_to (ends, 2, a, md, 1, b, index, 0, 8, 0).mlength == 0);
    expect (eq, PTL_EVENT_PUT);
    CHECK (entry_unlink (handle) == PTL_OK);
    if (IS_MATCHING) {
        pieces[0] = (ptl_iovec_t){ one, 3 };
        pieces[1] = (ptl_iovec_t){ three, 3 };
        entry.length = 2;
        entry.options |= PTL_ME_MANAGE_LOCAL;
        put_entry (b, index, &entry, PTL_PRIORITY_LIST, NULL);
        put_to (ends, 2, a, md, 2, b, index, 0, 0, 0);
        CHECK (expect (eq, PTL_EVENT_PUT).start == one);
        put_to (ends, 2, a, md, 3, b, index, 0, 0, 0);
        CHECK (expect (eq, PTL_EVENT_PUT).start == one + 2);
        CHECK (memcmp (one, "aba-", 4) == 0);
        CHECK (memcmp (three, "bch-", 4) == 0);
    }
    kinds_close (ends, 2);
    return 0;
}
