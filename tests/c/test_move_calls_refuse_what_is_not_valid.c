/* PtlPut to PtlSwap (3.15) and their triggered forms (3.16): PTL_ARG_INVALID
 * for bytes outside a descriptor, a length above the interface's limits, an
 * operation that does not fit its type or length, an ack whose queue or
 * counter the descriptor lacks, an unknown ack, an impossible table index or
 * process, descriptors or counters of another interface. No operation begins.
 * kinds: all */
#include "kinds.h"

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static ptl_handle_md_t md, bare, foreign;
static ptl_handle_ct_t ct, foreign_ct;
static ptl_process_t to;

static int put (ptl_handle_md_t from, uint64_t at, uint64_t length, int ack,
                ptl_process_t target, ptl_pt_index_t index)
{
    return PtlPut (from, at, length, (ptl_ack_req_t)ack, target, index, 0, 0,
                   NULL, 0);
}

static int get (ptl_handle_md_t into, uint64_t at, uint64_t length,
                ptl_process_t target, ptl_pt_index_t index)
{
    return PtlGet (into, at, length, target, index, 0, 0, NULL);
}

static int atomic (uint64_t length, int ack, int operation, int type)
{
    return PtlAtomic (md, 0, length, (ptl_ack_req_t)ack, to, 0, 0, 0, NULL, 0,
                      (ptl_op_t)operation, (ptl_datatype_t)type);
}

static int fetch (ptl_handle_md_t into, ptl_handle_md_t from, uint64_t length,
                  int operation, int type)
{
    return PtlFetchAtomic (into, 0, from, 0, length, to, 0, 0, 0, NULL, 0,
                           (ptl_op_t)operation, (ptl_datatype_t)type);
}

static int swap (uint64_t length, const void *operand, int operation,
                 int type)
{
    return PtlSwap (md, 0, md, 0, length, to, 0, 0, 0, NULL, 0, operand,
                    (ptl_op_t)operation, (ptl_datatype_t)type);
}

#define BAD(call) CHECK ((call) == PTL_ARG_INVALID)

static void puts_and_gets (void)
{
    ptl_process_t nobody = to;

    BAD (put (md, 101, 0, 0, to, 0));
    BAD (put (md, 50, 51, 0, to, 0));
    BAD (put (md, 1, UINT64_MAX, 0, to, 0));
    BAD (put (md, 0, 65, 0, to, 0)); /* above max_msg_size */
    BAD (put (bare, 0, 1, PTL_ACK_REQ, to, 0));
    BAD (put (bare, 0, 1, PTL_CT_ACK_REQ, to, 0));
    BAD (put (bare, 0, 1, PTL_OC_ACK_REQ, to, 0));
    BAD (put (md, 0, 1, PTL_OC_ACK_REQ + 1, to, 0));
    BAD (put (md, 0, 1, 0, to, 256));
    BAD (put (md, 0, 1, 0, to, PTL_PT_ANY));
    BAD (put (PTL_INVALID_HANDLE, 0, 1, 0, to, 0));
    BAD (put (ct, 0, 1, 0, to, 0));
    BAD (get (md, 101, 0, to, 0));
    BAD (get (md, 0, 65, to, 0));
    BAD (get (md, 0, 1, to, 256));
    BAD (get (ct, 0, 1, to, 0));
    if (IS_LOGICAL) {
        nobody.rank = 2;
        BAD (put (md, 0, 1, 0, nobody, 0));
        nobody.rank = PTL_RANK_ANY;
        BAD (get (md, 0, 1, nobody, 0));
        return;
    }
    nobody.phys.nid = 0;
    BAD (put (md, 0, 1, 0, nobody, 0));
    nobody.phys.nid = PTL_NID_ANY;
    BAD (put (md, 0, 1, 0, nobody, 0));
    nobody = to;
    nobody.phys.pid = 0;
    BAD (get (md, 0, 1, nobody, 0));
    nobody.phys.pid = PTL_PID_ANY;
    BAD (get (md, 0, 1, nobody, 0));
}

static void atomics (void)
{
    uint64_t operand = 0;

    BAD (atomic (40, 0, PTL_SUM, PTL_INT64_T)); /* above max_atomic_size */
    BAD (atomic (12, 0, PTL_SUM, PTL_INT64_T));
    BAD (atomic (8, 0, PTL_BOR, PTL_DOUBLE));
    BAD (atomic (8, 0, PTL_SWAP, PTL_INT64_T));
    BAD (atomic (8, 0, PTL_MSWAP + 1, PTL_INT64_T));
    BAD (atomic (8, 0, -1, PTL_INT64_T));
    BAD (atomic (8, 0, PTL_SUM, PTL_LONG_DOUBLE_COMPLEX + 1));
    BAD (atomic (8, 4, PTL_SUM, PTL_INT64_T));
    BAD (fetch (md, md, 24, PTL_SUM, PTL_INT64_T)); /* max_fetch_... */
    BAD (fetch (md, md, 4, PTL_SUM, PTL_INT64_T));
    BAD (fetch (md, md, 8, PTL_CSWAP, PTL_INT64_T));
    BAD (fetch (md, md, 8, PTL_MIN, PTL_DOUBLE_COMPLEX));
    BAD (fetch (md, foreign, 8, PTL_SUM, PTL_INT64_T));
    BAD (fetch (foreign, md, 8, PTL_SUM, PTL_INT64_T));
    BAD (fetch (md, PTL_INVALID_HANDLE, 8, PTL_SUM, PTL_INT64_T));
    BAD (fetch (PTL_INVALID_HANDLE, md, 8, PTL_SUM, PTL_INT64_T));
    BAD (swap (16, &operand, PTL_CSWAP, PTL_INT64_T)); /* one element */
    BAD (swap (0, &operand, PTL_MSWAP, PTL_INT64_T));
    BAD (swap (8, NULL, PTL_CSWAP, PTL_INT64_T));
    BAD (swap (8, &operand, PTL_SUM, PTL_INT64_T));
    BAD (swap (8, &operand, PTL_MSWAP, PTL_DOUBLE));
    BAD (swap (24, NULL, PTL_SWAP, PTL_INT64_T));
}

static void triggered (void)
{
    ptl_ct_event_t one = { 1, 0 };

    BAD (PtlTriggeredPut (md, 0, 65, 0, to, 0, 0, 0, NULL, 0, ct, 1));
    BAD (PtlTriggeredPut (md, 0, 1, 0, to, 0, 0, 0, NULL, 0, PTL_CT_NONE, 1));
    BAD (PtlTriggeredPut (md, 0, 1, 0, to, 0, 0, 0, NULL, 0, foreign_ct, 1));
    BAD (PtlTriggeredGet (md, 0, 65, to, 0, 0, 0, NULL, ct, 1));
    BAD (PtlTriggeredGet (md, 0, 1, to, 0, 0, 0, NULL, md, 1));
    BAD (PtlTriggeredAtomic (md, 0, 7, 0, to, 0, 0, 0, NULL, 0, PTL_SUM,
                             PTL_INT64_T, ct, 1));
    BAD (PtlTriggeredFetchAtomic (md, 0, md, 0, 7, to, 0, 0, 0, NULL, 0,
                                  PTL_SUM, PTL_INT64_T, ct, 1));
    BAD (PtlTriggeredSwap (md, 0, md, 0, 8, to, 0, 0, 0, NULL, 0, NULL,
                           PTL_MSWAP, PTL_INT64_T, ct, 1));
    BAD (PtlTriggeredCTInc (ct, one, PTL_CT_NONE, 1));
    BAD (PtlTriggeredCTInc (PTL_CT_NONE, one, ct, 1));
    BAD (PtlTriggeredCTInc (ct, one, foreign_ct, 1));
    BAD (PtlTriggeredCTSet (foreign_ct, one, ct, 1));
    CHECK (PtlCTInc (ct, one) == PTL_OK);
}

int main (void)
{
    ptl_ni_limits_t limits = { .max_msg_size = 64, .max_atomic_size = 32,
                               .max_fetch_atomic_size = 16 };
    static uint8_t memory[100];
    ptl_md_t plain = { .start = memory, .length = sizeof (memory),
                       .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE };
    struct ptlx_counters counters;

    kinds_open (ends, 2, 16, &limits);
    to = b->id;
    CHECK (PtlCTAlloc (a->ni, &ct) == PTL_OK);
    CHECK (PtlCTAlloc (b->ni, &foreign_ct) == PTL_OK);
    md = bind_memory (a, memory, sizeof (memory), 0, ct);
    foreign = bind_memory (b, memory, sizeof (memory), 0, PTL_CT_NONE);
    CHECK (PtlMDBind (a->ni, &plain, &bare) == PTL_OK);
    plain.options = 1u << 31;
    CHECK (PtlMDBind (a->ni, &plain, &foreign) == PTL_ARG_INVALID);
    plain.options = 0;
    plain.start = NULL;
    CHECK (PtlMDBind (a->ni, &plain, &foreign) == PTL_ARG_INVALID);
    puts_and_gets ();
    atomics ();
    triggered ();
    end_take (a);
    CHECK (a->n == 0);
    CHECK (PtlxCounters (a->ni, &counters) == PTL_OK && counters.peers == 0);
    CHECK (PtlMDRelease (md) == PTL_OK); /* nobody uses it */
    kinds_close (ends, 2);
    return 0;
}
