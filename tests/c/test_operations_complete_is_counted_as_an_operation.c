/* ptl_ack_req_t (spec 3.15.1): PTL_OC_ACK_REQ says that the operation has completed
 * at the target and not what became of it: it counts one success, not bytes, also
 * where nobody matched, the entry refused or the table entry is disabled.
 * PTL_CT_ACK_REQ counts a failure there, and bytes where they are asked for.
 * Neither posts an ACK. What never came to the target is a failure of both.
 * kinds: all */
#include "kinds.h"

enum place { TAKES, READS, OFF, NOBODY, PLACES };

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static ptl_handle_ct_t ct;
static uint64_t data, memory;
static int n_ends = 2; /* that live */

static bool has_counted (void *unused)
{
    ptl_ct_event_t value = count_in (ct);

    (void)unused;
    return value.success + value.failure > 0;
}

static void check (ptl_handle_md_t md, const struct end *to,
                   ptl_pt_index_t index, ptl_ack_req_t ack, bool is_atomic,
                   uint64_t success, uint64_t failure)
{
    CHECK (PtlCTSet (ct, (ptl_ct_event_t){ 0, 0 }) == PTL_OK);
    if (is_atomic)
        CHECK (PtlAtomic (md, 0, 8, ack, to->id, index, 0, 0, NULL, 0,
                          PTL_SUM, PTL_INT64_T)
               == PTL_OK);
    else
        CHECK (PtlPut (md, 0, 8, ack, to->id, index, 0, 0, NULL, 0)
               == PTL_OK);
    pump (ends, n_ends, has_counted, NULL);
    if (!counts (ct, success, failure))
        fprintf (stderr, "index %u, ack %d: %d and %d\n", index, (int)ack,
                 (int)count_in (ct).success, (int)count_in (ct).failure);
    CHECK (counts (ct, success, failure));
}

static void check_place (ptl_handle_md_t md, const struct end *to,
                         ptl_pt_index_t index, bool is_taken, bool is_bytes)
{
    for (int is_atomic = 0; is_atomic < 2; is_atomic++) {
        check (md, to, index, PTL_OC_ACK_REQ, is_atomic, 1, 0);
        check (md, to, index, PTL_CT_ACK_REQ, is_atomic,
               is_taken ? (is_bytes ? 8 : 1) : 0, is_taken ? 0 : 1);
    }
}

static void open_places (const struct end *end)
{
    entry_t entry = entry_of (&memory, 8, PTL_LE_OP_PUT);
    ptl_pt_index_t index;

    for (int i = 0; i < PLACES; i++)
        CHECK (PtlPTAlloc (end->ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &index)
                   == PTL_OK
               && index == (unsigned)i);
    put_entry (end, TAKES, &entry, PTL_PRIORITY_LIST, NULL);
    put_entry (end, OFF, &entry, PTL_PRIORITY_LIST, NULL);
    CHECK (PtlPTDisable (end->ni, OFF) == PTL_OK);
    entry.options = PTL_LE_OP_GET;
    put_entry (end, READS, &entry, PTL_PRIORITY_LIST, NULL);
}

int main (void)
{
    ptl_handle_md_t md, bytes;

    kinds_open (ends, 2, 64, NULL);
    CHECK (PtlCTAlloc (a->ni, &ct) == PTL_OK);
    md = bind_memory (a, &data, 8, PTL_MD_EVENT_CT_ACK, ct);
    bytes = bind_memory (
        a, &data, 8, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_BYTES, ct);
    open_places (a);
    open_places (b);
    for (int end = 0; end < 2; end++)
        for (unsigned place = TAKES; place < PLACES; place++) {
            check_place (md, &ends[end], place, place == TAKES, false);
            check_place (bytes, &ends[end], place, place == TAKES, true);
        }
    end_take (a);
    CHECK (count_of (a, PTL_EVENT_ACK) == 0);
    CHECK (count_of (a, PTL_EVENT_SEND) > 0);
    end_close (b);
    n_ends = 1;
    check (md, b, TAKES, PTL_OC_ACK_REQ, false, 0, 1);
    check (bytes, b, TAKES, PTL_CT_ACK_REQ, false, 0, 1);
    end_close (a);
    return 0;
}
