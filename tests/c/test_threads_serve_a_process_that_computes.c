/* Progress is independent of calls (spec 2.5): a process that reads its pipe,
 * and never calls Portals, takes puts, acknowledges them, and releases the
 * triggered put that they count for. */
#include "pair.h"

#define PUTS 8

static ptl_handle_ct_t counter (const struct pair *pair)
{
    ptl_handle_ct_t ct;

    CHECK (PtlCTAlloc (pair->ni, &ct) == PTL_OK);
    return ct;
}

static void expect_puts (const struct pair *pair, uint64_t *to,
                         ptl_handle_ct_t ct)
{
    ptl_handle_le_t le;
    ptl_pt_index_t index;

    CHECK (PtlPTAlloc (pair->ni, 0, PTL_EQ_NONE, 0, &index) == PTL_OK);
    CHECK (PtlMEAppend (pair->ni, index,
                        &(ptl_me_t){
                            .start = to,
                            .length = PUTS * sizeof (*to),
                            .ct_handle = ct,
                            .uid = PTL_UID_ANY,
                            .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM,
                            .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY },
                        },
                        PTL_PRIORITY_LIST, NULL, &le)
           == PTL_OK);
}

static ptl_handle_md_t memory (const struct pair *pair, uint64_t *from,
                               ptl_handle_ct_t ct)
{
    ptl_handle_md_t md;

    CHECK (PtlMDBind (pair->ni,
                      &(ptl_md_t){
                          .start = from,
                          .length = PUTS * sizeof (*from),
                          .options = PTL_MD_EVENT_CT_ACK,
                          .ct_handle = ct,
                          .eq_handle = PTL_EQ_NONE,
                      },
                      &md)
           == PTL_OK);
    return md;
}

int main (void)
{
    struct pair pair;
    uint64_t from[PUTS], to[PUTS] = { 0 };
    ptl_handle_ct_t arrived, acked;
    ptl_ct_event_t count;
    ptl_handle_md_t md;
    char word = 0;

    for (uint64_t i = 0; i < PUTS; i++)
        from[i] = i + 1;
    pair_open (&pair, PTL_NI_MATCHING | PTL_NI_PHYSICAL);
    arrived = counter (&pair);
    acked = counter (&pair);
    expect_puts (&pair, to, arrived);
    md = memory (&pair, from, acked);
    if (pair.rank == 1) /* back to the other, when all its puts are here */
        CHECK (PtlTriggeredPut (md, 0, sizeof (from), PTL_NO_ACK_REQ,
                                pair.other, 0, 0, 0, NULL, 0, arrived, PUTS)
               == PTL_OK);
    pair_meet (&pair);
    if (pair.rank == 1) {
        pair_hear (&pair, &word, 1); /* without a call */
    }
    else {
        for (uint64_t i = 0; i < PUTS; i++)
            CHECK (PtlPut (md, i * 8, 8, PTL_CT_ACK_REQ, pair.other, 0, 0,
                           i * 8, NULL, 0)
                   == PTL_OK);
        CHECK (PtlCTWait (acked, PUTS, &count) == PTL_OK);
        CHECK (count.failure == 0);
        CHECK (PtlCTWait (arrived, 1, &count) == PTL_OK);
        pair_say (&pair, &word, 1);
    }
    CHECK (PtlCTGet (arrived, &count) == PTL_OK && count.success > 0);
    CHECK (memcmp (from, to, sizeof (from)) == 0);
    return pair_close (&pair);
}
