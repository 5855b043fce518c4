/* Lists (spec 2.3, 3.12): ten thousand entries, each for one message, take them in the
 * order of their appends, and ten thousand headers are taken in the order in
 * which they came. Entries and headers that were freed are used again: the
 * limits hold them all at once, not ever.
 * kinds: all */
#include "kinds.h"

#define COUNT 10000
#define BATCH 500

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static ptl_pt_index_t table;
static ptl_handle_eq_t eq;

static void put_all (ptl_handle_md_t md, ptl_handle_ct_t ct)
{
    for (unsigned i = 0; i < COUNT; i += BATCH) {
        ptl_ct_event_t value;

        for (unsigned k = i; k < i + BATCH; k++)
            CHECK (PtlPut (md, 0, 0, PTL_CT_ACK_REQ, b->id, table, k, 0, NULL,
                           k)
                   == PTL_OK);
        for (int64_t until = now_ms () + LIMIT_MS;;) {
            CHECK (now_ms () < until);
            end_take (a);
            end_take (b);
            CHECK (PtlCTGet (ct, &value) == PTL_OK && value.failure == 0);
            if (value.success == i + BATCH)
                break;
        }
    }
    CHECK (PtlCTSet (ct, (ptl_ct_event_t){ 0, 0 }) == PTL_OK);
}

int main (void)
{
    static const ptl_ni_limits_t limits = {
        .max_entries = COUNT + 1,
        .max_list_size = COUNT,
        .max_unexpected_headers = COUNT,
    };
    entry_t entry = entry_of (NULL, 0, PTL_LE_OP_PUT | PTL_LE_USE_ONCE
                                  | PTL_LE_EVENT_UNLINK_DISABLE
                                  | PTL_LE_EVENT_LINK_DISABLE);
    entry_t over = entry_of (NULL, 0, PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE
                                 | PTL_LE_EVENT_COMM_DISABLE);
    static char users[COUNT];
    ptl_handle_ct_t ct;
    ptl_handle_md_t md;

    kinds_open (ends, 2, 64, &limits);
    table = kinds_table (b, 0, COUNT, &eq);
    CHECK (PtlCTAlloc (a->ni, &ct) == PTL_OK);
    md = bind_memory (a, NULL, 0,
                      PTL_MD_EVENT_SEND_DISABLE | PTL_MD_EVENT_CT_ACK, ct);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++)
            put_entry (b, table, &entry, PTL_PRIORITY_LIST, &users[i]);
        put_all (md, ct);
        for (unsigned i = 0; i < COUNT; i++) {
            ptl_event_t event = expect (eq, PTL_EVENT_PUT);

            CHECK (event.hdr_data == i && event.user_ptr == &users[i]);
        }
    }
    put_entry (b, table, &over, PTL_OVERFLOW_LIST, NULL);
    for (int round = 0; round < 2; round++) {
        put_all (md, ct);
        for (unsigned i = 0; i < COUNT; i++) {
            put_entry (b, table, &entry, PTL_PRIORITY_LIST, NULL);
            CHECK (expect (eq, PTL_EVENT_PUT_OVERFLOW).hdr_data == i);
        }
    }
    CHECK (is_empty (eq));
    kinds_close (ends, 2);
    return 0;
}
