/* 3.16: Put, Get, Atomic, FetchAtomic, Swap, CTInc and CTSet wait until success
 * and failure of the counter together reach the threshold; what is in the
 * buffer then counts; an operation whose threshold has been reached begins at
 * once; PtlCTCancelTriggered takes back what waits. kinds: all */
#include "kinds.h"

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static int64_t source[4], target[4], old[4], operand;
static ptl_handle_ct_t ct, other;
static ptl_handle_md_t md, get;
static ptl_pt_index_t place;

static void arm (uint64_t at)
{
    ptl_ct_event_t two = { 2, 0 }, set = { 10, 20 };

    CHECK (PtlTriggeredPut (md, 0, 8, PTL_ACK_REQ, b->id, place, 0, 0, NULL,
                            0, ct, at)
           == PTL_OK);
    CHECK (PtlTriggeredAtomic (md, 8, 8, PTL_ACK_REQ, b->id, place, 0, 0, NULL,
                               0, PTL_SUM, PTL_INT64_T, ct, at + 1)
           == PTL_OK);
    CHECK (PtlTriggeredFetchAtomic (get, 0, md, 0, 8, b->id, place, 0, 0, NULL,
                                    0, PTL_PROD, PTL_INT64_T, ct, at + 2)
           == PTL_OK);
    operand = 18;
    CHECK (PtlTriggeredSwap (get, 8, md, 16, 8, b->id, place, 0, 0, NULL, 0,
                             &operand, PTL_CSWAP, PTL_INT64_T, ct, at + 3)
           == PTL_OK);
    operand = 0; /* was taken at the call */
    CHECK (PtlTriggeredGet (get, 16, 8, b->id, place, 0, 0, NULL, ct, at + 4)
           == PTL_OK);
    CHECK (PtlTriggeredCTInc (other, two, ct, at + 5) == PTL_OK);
    CHECK (PtlTriggeredCTSet (other, set, ct, at + 6) == PTL_OK);
}

static void step (int acks, int replies)
{
    ptl_ct_event_t one = { 1, 0 }, failure = { 0, 1 };

    CHECK (PtlCTInc (ct, (acks + replies) % 2 ? one : failure) == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_ACK, acks);
    pump_until (ends, 2, a, PTL_EVENT_REPLY, replies);
    CHECK (count_of (a, PTL_EVENT_ACK) == acks);
    CHECK (count_of (a, PTL_EVENT_REPLY) == replies);
}

int main (void)
{
    entry_t entry = entry_of (target, sizeof (target),
                              PTL_LE_OP_PUT | PTL_LE_OP_GET);
    ptl_ct_event_t zero = { 0, 0 }, much = { 100, 0 };
    ptl_handle_eq_t eq;

    kinds_open (ends, 2, 64, NULL);
    place = kinds_table (b, 0, 64, &eq);
    put_entry (b, place, &entry, PTL_PRIORITY_LIST, NULL);
    CHECK (PtlCTAlloc (a->ni, &ct) == PTL_OK);
    CHECK (PtlCTAlloc (a->ni, &other) == PTL_OK);
    md = bind_memory (a, source, sizeof (source), 0, PTL_CT_NONE);
    get = bind_memory (a, old, sizeof (old), 0, PTL_CT_NONE);
    arm (1);
    CHECK (PtlMDRelease (md) == PTL_IN_USE);
    source[0] = 6;
    step (1, 0);
    CHECK (target[0] == 6);
    source[1] = -3;
    step (2, 0);
    CHECK (target[0] == 3);
    step (2, 1);
    CHECK (target[0] == 18 && old[0] == 3);
    source[2] = 1000;
    step (2, 2);
    CHECK (target[0] == 1000 && old[1] == 18);
    step (2, 3);
    CHECK (old[2] == 1000 && counts (other, 0, 0));
    step (2, 3);
    CHECK (counts (other, 2, 0));
    step (2, 3);
    CHECK (counts (other, 10, 20));

    CHECK (PtlCTSet (ct, zero) == PTL_OK);
    arm (1);
    CHECK (PtlCTCancelTriggered (ct) == PTL_OK);
    CHECK (PtlMDRelease (md) == PTL_OK && PtlMDRelease (get) == PTL_OK);
    CHECK (PtlCTSet (ct, much) == PTL_OK);
    CHECK (counts (other, 10, 20));

    /* Reached already: at once, in issue order. */
    a->n = 0;
    md = bind_memory (a, source, sizeof (source), 0, PTL_CT_NONE);
    get = bind_memory (a, old, sizeof (old), 0, PTL_CT_NONE);
    source[0] = 6;
    source[1] = -3;
    arm (1);
    pump_until (ends, 2, a, PTL_EVENT_REPLY, 3);
    pump_until (ends, 2, a, PTL_EVENT_ACK, 2);
    CHECK (target[0] == 1000 && old[0] == 3 && old[1] == 18);
    CHECK (old[2] == 1000);

    /* A counter that is freed takes with it what waits, for it or by it. */
    CHECK (PtlCTSet (ct, zero) == PTL_OK);
    arm (1);
    CHECK (PtlCTFree (other) == PTL_OK);
    CHECK (PtlCTInc (ct, much) == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_REPLY, 6);
    CHECK (PtlCTAlloc (a->ni, &other) == PTL_OK);
    CHECK (PtlCTSet (ct, zero) == PTL_OK);
    arm (1);
    CHECK (PtlCTFree (ct) == PTL_OK);
    CHECK (PtlMDRelease (md) == PTL_OK && PtlMDRelease (get) == PTL_OK);
    kinds_close (ends, 2);
    return 0;
}
