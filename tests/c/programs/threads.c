/* Ten threads in one interface (2.6.3): each with a counter, a queue and a table
 * entry, talking to all ranks at once.
 *
 * kinds: all
 */
#include <pthread.h>

#include "world.h"

#define THREADS 10
#define TIMES 30

static ptl_handle_ni_t ni;
static ptl_process_t *ids;
static uint64_t cells[THREADS][64];
static int64_t sum;

static void *work (void *argument)
{
    uint64_t t = (uint64_t)(uintptr_t)argument;
    ptl_pt_index_t pt = (ptl_pt_index_t)t;
    struct { uint64_t out; int64_t one, old; } mine = { 0, 1, 0 };
    ptl_handle_ct_t ct;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md, put_md;
    ptl_size_t n = 0;
    ptl_event_t event;

    OK (PtlCTAlloc (ni, &ct));
    OK (PtlEQAlloc (ni, 64, &eq));
    md = bind_md (ni, &mine, sizeof (mine), PTL_MD_EVENT_CT_REPLY,
                  PTL_EQ_NONE, ct);
    put_md = bind_md (ni, &mine, sizeof (mine), PTL_MD_EVENT_SEND_DISABLE, eq,
                      PTL_CT_NONE);
    for (int i = 0; i < TIMES; i++) {
        int to = (rank + i) % size;

        mine.out = t * 1000 + (uint64_t)(rank * TIMES + i);
        OK (PtlPut (put_md, 0, 8, PTL_ACK_REQ, ids[to], pt, 0,
                    8 * (ptl_size_t)rank, &mine, 0));
        OK (PtlEQWait (eq, &event));
        CHECK (event.type == PTL_EVENT_ACK && event.user_ptr == &mine
               && event.ni_fail_type == PTL_NI_OK);
        OK (PtlGet (md, 16, 8, ids[to], pt, 0, 8 * (ptl_size_t)rank, NULL));
        wait_count (ct, ++n);
        CHECK (mine.old == (int64_t)mine.out);
        OK (PtlFetchAtomic (md, 16, md, 8, 8, ids[0], THREADS, 0, 0, NULL, 0,
                            PTL_SUM, PTL_INT64_T));
        wait_count (ct, ++n);
    }
    OK (PtlMDRelease (md));
    OK (PtlMDRelease (put_md));
    OK (PtlEQFree (eq));
    OK (PtlCTFree (ct));
    return NULL;
}

int main (void)
{
    pthread_t threads[THREADS];

    world_open ();
    ids = world_interface (NI_OPTIONS, NULL, NULL, &ni);
    for (ptl_pt_index_t t = 0; t < THREADS; t++)
        expose (ni, t, cells[t], sizeof (cells[t]),
                PTL_LE_OP_PUT | PTL_LE_OP_GET, PTL_CT_NONE);
    expose (ni, THREADS, &sum, sizeof (sum), PTL_LE_OP_PUT | PTL_LE_OP_GET,
            PTL_CT_NONE);
    barrier ();
    for (uintptr_t t = 0; t < THREADS; t++)
        CHECK (pthread_create (&threads[t], NULL, work, (void *)t) == 0);
    for (int t = 0; t < THREADS; t++)
        CHECK (pthread_join (threads[t], NULL) == 0);
    barrier ();
    CHECK (rank > 0 || sum == (int64_t)size * THREADS * TIMES);
    return world_close ();
}
