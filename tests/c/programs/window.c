/* One-sided: put, get, accumulate, a ticket counter, a lock and what it guards
 * (3.15.2 to 3.15.6), on rank 0's window and everybody's.
 *
 * kinds: all
 */
#include "world.h"

#define TIMES 12

static struct window {
    int64_t ticket, lock, guarded, pad;
    double sum[4];
    uint8_t is_taken[64 * TIMES];
    uint32_t from[64];
} window;

#define AT(field) offsetof (struct window, field)

static ptl_handle_ct_t done;
static ptl_handle_md_t md;
static ptl_size_t n_done;
static struct { int64_t put, old; double ones[4]; uint32_t words[64]; } mine;
#define MINE(field) ((size_t)((char *)&mine.field - (char *)&mine))

static void finish (void)
{
    n_done++;
    wait_count (done, n_done);
}

static int64_t swap (ptl_process_t to, ptl_pt_index_t pt, size_t at,
                     int64_t value, int64_t operand, ptl_op_t operation)
{
    mine.put = value;
    OK (PtlSwap (md, MINE (old), md, MINE (put), 8, to, pt, 0, at, NULL, 0,
                 operation == PTL_SWAP ? NULL : &operand, operation,
                 PTL_INT64_T));
    finish ();
    return mine.old;
}

static int64_t fetch_add (ptl_process_t to, ptl_pt_index_t pt, size_t at)
{
    mine.put = 1;
    OK (PtlFetchAtomic (md, MINE (old), md, MINE (put), 8, to, pt, 0, at,
                        NULL, 0, PTL_SUM, PTL_INT64_T));
    finish ();
    return mine.old;
}

/* Read, wait for nothing, write: lost updates show without the lock. */
static void add_guarded (ptl_process_t to, ptl_pt_index_t pt)
{
    while (swap (to, pt, AT (lock), rank + 1, 0, PTL_CSWAP) != 0)
        ;
    OK (PtlGet (md, MINE (old), 8, to, pt, 0, AT (guarded), NULL));
    finish ();
    mine.put = mine.old + 1;
    OK (PtlPut (md, MINE (put), 8, PTL_CT_ACK_REQ, to, pt, 0, AT (guarded),
                NULL, 0));
    finish ();
    CHECK (swap (to, pt, AT (lock), 0, 0, PTL_SWAP) == rank + 1);
}

int main (void)
{
    ptl_handle_ni_t ni;
    ptl_process_t *ids;
    ptl_pt_index_t pt;
    uint8_t *taken = &window.is_taken[0];

    world_open ();
    CHECK (size <= 64);
    ids = world_interface (NI_OPTIONS, NULL, NULL, &ni);
    OK (PtlCTAlloc (ni, &done));
    pt = expose (ni, 20, &window, sizeof (window),
                 PTL_LE_OP_PUT | PTL_LE_OP_GET, PTL_CT_NONE);
    md = bind_md (ni, &mine, sizeof (mine),
                  PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE,
                  done);
    barrier ();
    for (int i = 0; i < 4; i++)
        mine.ones[i] = i + 0.5;
    for (int i = 0; i < TIMES; i++) {
        int64_t ticket = fetch_add (ids[0], pt, AT (ticket));

        mine.put = 1;
        OK (PtlPut (md, MINE (put), 1, PTL_CT_ACK_REQ, ids[0], pt, 0,
                    AT (is_taken) + (size_t)ticket, NULL, 0));
        finish ();
        OK (PtlAtomic (md, MINE (ones), sizeof (mine.ones), PTL_CT_ACK_REQ,
                       ids[(rank + i) % size], pt, 0, AT (sum), NULL, 0,
                       PTL_SUM, PTL_DOUBLE));
        finish ();
        add_guarded (ids[0], pt);
    }
    for (int to = 0; to < size; to++) {
        mine.words[to] = (uint32_t)(rank * 100 + to);
        OK (PtlPut (md, MINE (words[to]), 4, PTL_CT_ACK_REQ, ids[to], pt, 0,
                    AT (from[rank]), NULL, 0));
    }
    n_done += (ptl_size_t)size - 1;
    finish ();
    barrier ();
    for (int from = 0; from < size; from++) {
        CHECK (window.from[from] == (uint32_t)(from * 100 + rank));
        OK (PtlGet (md, MINE (words[from]), 4, ids[from], pt, 0,
                    AT (from[rank]), NULL));
    }
    n_done += (ptl_size_t)size - 1;
    finish ();
    for (int from = 0; from < size; from++)
        CHECK (mine.words[from] == (uint32_t)(rank * 100 + from));
    OK (PtlAtomicSync ());
    if (rank == 0) {
        CHECK (window.ticket == size * TIMES && window.lock == 0);
        CHECK (window.guarded == size * TIMES);
        for (int i = 0; i < size * TIMES; i++)
            CHECK (taken[i] == 1);
    }
    for (int i = 0; i < size; i++) { /* everybody's sums, seen from here */
        OK (PtlGet (md, MINE (ones), sizeof (mine.ones), ids[i], pt, 0,
                    AT (sum), NULL));
        finish ();
        CHECK (TIMES % size != 0 || mine.ones[1] == TIMES * 1.5);
    }
    barrier ();
    return world_close ();
}
