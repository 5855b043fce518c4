/* PtlNIInit (3.6.2), max_triggered_ops: as many may wait, one more is
 * PTL_NO_SPACE; release, cancelling and freeing the counter make room; what
 * does not wait does not count. kinds: all */
#include "kinds.h"

#define MOST 5

static struct end ends[1], *a = &ends[0];
static ptl_handle_ct_t ct, other;
static ptl_handle_md_t md;

static int put (uint64_t threshold)
{
    return PtlTriggeredPut (md, 0, 1, PTL_NO_ACK_REQ, a->id, 0, 0, 0, NULL, 0,
                            ct, threshold);
}

static void fill (int from)
{
    ptl_ct_event_t one = { 1, 0 };
    uint64_t operand = 0;

    for (int i = from; i < MOST; i++)
        CHECK (put (10 + (uint64_t)i) == PTL_OK);
    CHECK (put (100) == PTL_NO_SPACE);
    CHECK (PtlTriggeredGet (md, 0, 1, a->id, 0, 0, 0, NULL, ct, 100)
           == PTL_NO_SPACE);
    CHECK (PtlTriggeredAtomic (md, 0, 8, 0, a->id, 0, 0, 0, NULL, 0, PTL_SUM,
                               PTL_INT64_T, ct, 100)
           == PTL_NO_SPACE);
    CHECK (PtlTriggeredFetchAtomic (md, 0, md, 0, 8, a->id, 0, 0, 0, NULL, 0,
                                    PTL_SUM, PTL_INT64_T, ct, 100)
           == PTL_NO_SPACE);
    CHECK (PtlTriggeredSwap (md, 0, md, 0, 8, a->id, 0, 0, 0, NULL, 0,
                             &operand, PTL_MSWAP, PTL_INT64_T, ct, 100)
           == PTL_NO_SPACE);
    CHECK (PtlTriggeredCTInc (other, one, ct, 100) == PTL_NO_SPACE);
    CHECK (PtlTriggeredCTSet (other, one, ct, 100) == PTL_NO_SPACE);
    CHECK (put (0) == PTL_OK); /* begins at once */
}

int main (void)
{
    ptl_ni_limits_t limits = { .max_triggered_ops = MOST };
    ptl_ct_event_t ten = { 10, 0 };
    static uint64_t memory;

    kinds_open (ends, 1, 64, &limits);
    CHECK (PtlCTAlloc (a->ni, &ct) == PTL_OK);
    CHECK (PtlCTAlloc (a->ni, &other) == PTL_OK);
    md = bind_memory (a, &memory, sizeof (memory), 0, PTL_CT_NONE);
    fill (0);
    CHECK (PtlCTInc (ct, ten) == PTL_OK); /* one goes */
    CHECK (put (50) == PTL_OK);
    CHECK (put (50) == PTL_NO_SPACE);
    CHECK (PtlCTCancelTriggered (ct) == PTL_OK);
    CHECK (PtlCTSet (ct, (ptl_ct_event_t){ 0, 0 }) == PTL_OK);
    fill (0);
    CHECK (PtlCTFree (ct) == PTL_OK);
    CHECK (PtlCTAlloc (a->ni, &ct) == PTL_OK);
    CHECK (PtlTriggeredCTInc (other, ten, ct, 10) == PTL_OK);
    fill (1);
    CHECK (PtlCTFree (other) == PTL_OK); /* what it waited for */
    CHECK (put (50) == PTL_OK);
    CHECK (put (50) == PTL_NO_SPACE);
    end_take (a);
    kinds_close (ends, 1);
    return 0;
}
