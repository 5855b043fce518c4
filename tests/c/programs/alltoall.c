/* A token goes round, then everybody puts to everybody (3.14.1, 3.15.2): counters
 * at both ends tell when data is there. An argument is the exit code.
 *
 * kinds: all
 */
#include "world.h"

#define ROUNDS 8
#define BLOCK 1000

static uint64_t token[ROUNDS];

static void go_round (ptl_handle_ni_t ni, const ptl_process_t *ids)
{
    ptl_handle_ct_t came;
    ptl_pt_index_t pt;
    ptl_handle_md_t md;
    uint64_t sum = 0;

    OK (PtlCTAlloc (ni, &came));
    pt = expose (ni, 3, token, sizeof (token),
                 PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM, came);
    md = bind_md (ni, token, sizeof (token), 0, PTL_EQ_NONE, PTL_CT_NONE);
    barrier ();
    for (int round = 0; round < ROUNDS; round++) {
        size_t at = (size_t)round * sizeof (token[0]);

        if (rank > 0) {
            wait_count (came, (ptl_size_t)round + 1);
            sum = token[round];
        }
        token[round] = sum + (uint64_t)rank;
        OK (PtlPut (md, at, sizeof (token[0]), PTL_NO_ACK_REQ,
                    ids[(rank + 1) % size], pt, 0, at, NULL, 0));
        if (rank == 0) {
            wait_count (came, (ptl_size_t)round + 1);
            sum = token[round];
        }
    }
    if (rank == 0)
        CHECK (sum
               == (uint64_t)ROUNDS * (uint64_t)size * (uint64_t)(size - 1)
                      / 2);
}

static void all_to_all (ptl_handle_ni_t ni, const ptl_process_t *ids)
{
    size_t row = (size_t)size * BLOCK, all = row * ROUNDS;
    unsigned char *out = malloc (row), *in = calloc (1, all);
    ptl_handle_ct_t came, went;
    ptl_handle_md_t md;
    ptl_pt_index_t pt;

    CHECK (in && out);
    OK (PtlCTAlloc (ni, &came));
    OK (PtlCTAlloc (ni, &went));
    pt = expose (ni, PTL_PT_ANY, in, all,
                 PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM, came);
    CHECK (pt == 0);
    md = bind_md (ni, out, row, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, went);
    barrier ();
    for (int round = 0; round < ROUNDS; round++) {
        ptl_size_t done = (ptl_size_t)(round + 1) * (ptl_size_t)size;

        for (int to = 0; to < size; to++)
            fill (out + to * BLOCK, BLOCK,
                  (uint64_t)(round * 10000 + rank * 100 + to));
        for (int to = 0; to < size; to++)
            OK (PtlPut (md, (size_t)to * BLOCK, BLOCK, PTL_CT_ACK_REQ,
                        ids[to], pt, 0,
                        (size_t)round * row + (size_t)rank * BLOCK, NULL, 0));
        wait_count (came, done);
        wait_count (went, done);
    }
    /* Counted are puts, not rounds: a fast rank is ahead by one at most. */
    barrier ();
    for (int round = 0; round < ROUNDS; round++)
        for (int from = 0; from < size; from++)
            CHECK (is_filled (in + (size_t)round * row + from * BLOCK, BLOCK,
                              (uint64_t)(round * 10000 + from * 100 + rank)));
}

int main (int argc, char **argv)
{
    ptl_handle_ni_t ni;
    ptl_process_t *ids;

    world_open ();
    ids = world_interface (NI_OPTIONS, NULL, NULL, &ni);
    go_round (ni, ids);
    all_to_all (ni, ids);
    OK (PtlNIFini (ni));
    world_close ();
    return argc > 1 ? atoi (argv[1]) : 0;
}
