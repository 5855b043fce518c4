/* Independent progress (2.6): rank 0 makes no call while the others put, get and
 * count in its memory. It computes until their words are there, then it waits
 * for something else.
 *
 * kinds: all
 */
#include "world.h"

#define TIMES 20

static struct { int64_t count; uint64_t words[64]; } window;

static void compute (void)
{
    volatile uint64_t *words = window.words;
    double x = 1;

    for (int i = 1; i < size; i++)
        while (words[i] != (uint64_t)i)
            for (int k = 0; k < 10000; k++)
                x = x * 1.0000001 + 1e-9;
    CHECK (x >= 1);
    barrier ();
}

static void use (ptl_handle_ni_t ni, ptl_process_t server)
{
    static struct { uint64_t word; int64_t one, old; uint64_t all[64]; } mine;
    ptl_handle_ct_t done;
    ptl_handle_md_t md;
    ptl_size_t n = 0;

    OK (PtlCTAlloc (ni, &done));
    md = bind_md (ni, &mine, sizeof (mine),
                  PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE,
                  done);
    mine.one = 1;
    for (int phase = 0; phase < 2; phase++) {
        for (int i = 0; i < TIMES; i++) {
            OK (PtlFetchAtomic (md, 16, md, 8, 8, server, 5, 0, 0, NULL, 0,
                                PTL_SUM, PTL_INT64_T));
            wait_count (done, ++n);
        }
        mine.word = (uint64_t)rank;
        OK (PtlPut (md, 0, 8, PTL_CT_ACK_REQ, server, 5, 0,
                    8 + 8 * (ptl_size_t)rank, NULL, 0));
        wait_count (done, ++n);
        OK (PtlGet (md, 24, 8 * (ptl_size_t)size, server, 5, 0, 8, NULL));
        wait_count (done, ++n);
        CHECK (mine.all[rank] == (uint64_t)rank);
        barrier ();
    }
}

int main (void)
{
    ptl_handle_ni_t ni;
    ptl_process_t *ids;

    world_open ();
    CHECK (size <= 64);
    ids = world_interface (NI_OPTIONS, NULL, NULL, &ni);
    if (rank == 0)
        expose (ni, 5, &window, sizeof (window),
                PTL_LE_OP_PUT | PTL_LE_OP_GET, PTL_CT_NONE);
    barrier ();
    if (rank > 0)
        use (ni, ids[0]);
    else {
        compute ();
        barrier (); /* asleep, and not in Portals */
        CHECK (window.count == (int64_t)2 * TIMES * (size - 1));
    }
    return world_close ();
}
