/* Broadcast, barrier and allreduce that run by themselves once armed: triggered
 * puts, atomics and counts (3.16), armed again for each round.
 *
 * kinds: all
 */
#include "world.h"

#define ROUNDS 10
#define WORDS 512
#define LEVELS 7

enum { PT_BY_SET = 1, PT_BY_INC, PT_UP, PT_DOWN, PT_COUNT, PT_LEVEL };

static ptl_handle_ni_t ni;
static ptl_process_t *ids;
static int parent, children[LEVELS], n_children;

/* Binomial tree with its root at rank 0. */
static void find_places (void)
{
    int bit = 1;

    parent = -1;
    for (; bit < size; bit <<= 1) {
        if (rank & bit) {
            parent = rank - bit;
            break;
        }
        if (rank + bit < size)
            children[n_children++] = rank + bit;
    }
}

static ptl_handle_ct_t new_ct (void)
{
    ptl_handle_ct_t ct;

    OK (PtlCTAlloc (ni, &ct));
    return ct;
}

static ptl_handle_md_t plain_md (void *start, size_t length)
{
    return bind_md (ni, start, length, 0, PTL_EQ_NONE, PTL_CT_NONE);
}

/* The counter goes back by itself; another one tells the program. Set to 0 it
 * forgets what came too early, so all are armed before a round begins; one less
 * forgets nothing. */
static void broadcast (bool by_set)
{
    uint64_t (*words)[WORDS] = calloc (2, sizeof (*words));
    ptl_handle_ct_t came = new_ct (), told = new_ct ();
    ptl_handle_md_t md = plain_md (words, 2 * sizeof (*words));
    ptl_pt_index_t pt
        = expose (ni, by_set ? PT_BY_SET : PT_BY_INC, words,
                  2 * sizeof (*words), PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM,
                  came);

    barrier ();
    for (int round = 0; round < ROUNDS; round++) {
        size_t at = sizeof (words[0]) * (size_t)(round & 1);

        for (int i = n_children; i-- > 0;)
            OK (PtlTriggeredPut (md, at, sizeof (words[0]), PTL_NO_ACK_REQ,
                                 ids[children[i]], pt, 0, at, NULL,
                                 0, came, 1));
        OK (PtlTriggeredCTInc (told, (ptl_ct_event_t){ 1, 0 }, came, 1));
        if (by_set) {
            OK (PtlTriggeredCTSet (came, (ptl_ct_event_t){ 0, 0 }, came, 1));
            barrier ();
        } else
            OK (PtlTriggeredCTInc (came, (ptl_ct_event_t){ -UINT64_C (1), 0 },
                                   came, 1));
        if (rank == 0) {
            for (int i = 0; i < WORDS; i++)
                words[round & 1][i] = (uint64_t)(round * 1000 + i);
            OK (PtlCTInc (came, (ptl_ct_event_t){ 1, 0 }));
        }
        wait_count (told, (ptl_size_t)round + 1);
        for (int i = 0; i < WORDS; i++)
            CHECK (words[round & 1][i] == (uint64_t)(round * 1000 + i));
        if (round & 1)
            barrier (); /* both buffers are read */
    }
}

/* Up by atomics, down by puts. Who contributes to a round has the result of the
 * one before, so two buffers are enough. */
static void allreduce (void)
{
    static int64_t sums[2][2], results[2][2], own[2];
    ptl_handle_ct_t up = new_ct (), down = new_ct ();
    ptl_handle_md_t sums_md = plain_md (sums, sizeof (sums));
    ptl_handle_md_t results_md = plain_md (results, sizeof (results));
    ptl_handle_md_t own_md = plain_md (own, sizeof (own));
    size_t length = sizeof (sums[0]);

    expose (ni, PT_UP, sums, sizeof (sums),
            PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM, up);
    expose (ni, PT_DOWN, results, sizeof (results),
            PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM, down);
    barrier ();
    for (int round = 0; round < ROUNDS; round++) {
        size_t at = length * (size_t)(round & 1);
        ptl_size_t all = (ptl_size_t)(round + 1) * ((ptl_size_t)n_children + 1);

        if (parent >= 0)
            OK (PtlTriggeredAtomic (sums_md, at, length, PTL_NO_ACK_REQ,
                                    ids[parent], PT_UP, 0, at, NULL, 0,
                                    PTL_SUM, PTL_INT64_T, up, all));
        else
            OK (PtlTriggeredPut (sums_md, at, length, PTL_NO_ACK_REQ, ids[0],
                                 PT_DOWN, 0, at, NULL, 0, up, all));
        for (int i = 0; i < n_children; i++)
            OK (PtlTriggeredPut (results_md, at, length, PTL_NO_ACK_REQ,
                                 ids[children[i]], PT_DOWN, 0, at, NULL, 0,
                                 down, (ptl_size_t)round + 1));
        memset (sums[!(round & 1)], 0, length); /* of the next round */
        own[0] = rank + round;
        own[1] = 1;
        OK (PtlAtomic (own_md, 0, length, PTL_NO_ACK_REQ, ids[rank], PT_UP, 0,
                       at, NULL, 0, PTL_SUM, PTL_INT64_T));
        wait_count (down, (ptl_size_t)round + 1);
        CHECK (results[round & 1][1] == size);
        CHECK (results[round & 1][0]
               == (int64_t)size * (size - 1) / 2 + (int64_t)size * round);
    }
}

/* Dissemination: nobody leaves before everybody is in. A level is complete when
 * its message has come and the level below is complete. */
static void barriers (void)
{
    static int64_t entered, one = 1, seen;
    ptl_handle_ct_t level[LEVELS + 1], done = new_ct ();
    ptl_handle_md_t nothing = plain_md (NULL, 0);
    ptl_handle_md_t one_md = plain_md (&one, 8);
    ptl_handle_md_t seen_md
        = bind_md (ni, &seen, 8, PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, done);
    int n = 0;

    expose (ni, PT_COUNT, &entered, 8, PTL_LE_OP_PUT | PTL_LE_OP_GET,
            PTL_CT_NONE);
    for (int bit = 1; bit < size; bit <<= 1, n++) {
        level[n] = new_ct ();
        expose (ni, (ptl_pt_index_t)(PT_LEVEL + n), NULL, 0,
                PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM, level[n]);
    }
    barrier ();
    for (int round = 0; round < ROUNDS; round++) {
        ptl_size_t count = (ptl_size_t)round + 1;

        OK (PtlFetchAtomic (seen_md, 0, one_md, 0, 8, ids[0], PT_COUNT, 0, 0,
                            NULL, 0, PTL_SUM, PTL_INT64_T));
        wait_count (done, 2 * (ptl_size_t)round + 1);
        for (int i = 1; i < n; i++) {
            ptl_size_t before = i == 1 ? count : 2 * count;

            OK (PtlTriggeredPut (nothing, 0, 0, PTL_NO_ACK_REQ,
                                 ids[(rank + (1 << i)) % size],
                                 (ptl_pt_index_t)(PT_LEVEL + i), 0, 0, NULL,
                                 0, level[i - 1], before));
            OK (PtlTriggeredCTInc (level[i], (ptl_ct_event_t){ 1, 0 },
                                   level[i - 1], before));
        }
        if (n > 0) {
            OK (PtlPut (nothing, 0, 0, PTL_NO_ACK_REQ, ids[(rank + 1) % size],
                        PT_LEVEL, 0, 0, NULL, 0));
            wait_count (level[n - 1], n == 1 ? count : 2 * count);
        }
        OK (PtlGet (seen_md, 0, 8, ids[0], PT_COUNT, 0, 0, NULL));
        wait_count (done, 2 * (ptl_size_t)round + 2);
        CHECK (seen >= (int64_t)size * (round + 1));
    }
}

int main (void)
{
    world_open ();
    ids = world_interface (NI_OPTIONS, NULL, NULL, &ni);
    find_places ();
    broadcast (true);
    broadcast (false);
    allreduce ();
    barriers ();
    return world_close ();
}
