/* All of a process's memory in one descriptor and one entry (start NULL, length
 * PTL_SIZE_MAX), with addresses for offsets, as SHMEM libraries do it.
 *
 * kinds: all
 */
#include "world.h"

static int64_t cell, old, one = 1;

int main (void)
{
    ptl_handle_ni_t ni;
    ptl_process_t *ids;
    ptl_handle_ct_t done;
    ptl_handle_md_t md;
    int64_t local, *addresses, *heap;
    int to;

    world_open ();
    to = (rank + 1) % size;
    ids = world_interface (NI_OPTIONS, NULL, NULL, &ni);
    OK (PtlCTAlloc (ni, &done));
    md = bind_md (ni, NULL, PTL_SIZE_MAX,
                  PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE,
                  done);
    addresses = calloc ((size_t)size * 2, sizeof (*addresses));
    heap = calloc (1, 1 << 20);
    expose (ni, 1, addresses, (size_t)size * 16, PTL_LE_OP_PUT, PTL_CT_NONE);
    expose (ni, 0, NULL, PTL_SIZE_MAX, PTL_LE_OP_PUT | PTL_LE_OP_GET,
            PTL_CT_NONE);
    barrier ();
    addresses[2 * rank] = (intptr_t)&cell;
    addresses[2 * rank + 1] = (intptr_t)heap;
    for (int i = 0; i < size; i++)
        OK (PtlPut (md, (uintptr_t)&addresses[2 * rank], 16, PTL_CT_ACK_REQ,
                    ids[i], 1, 0, 16 * (ptl_size_t)rank, NULL, 0));
    wait_count (done, (ptl_size_t)size);
    barrier ();
    local = rank + 1000;
    OK (PtlPut (md, (uintptr_t)&local, 8, PTL_CT_ACK_REQ, ids[to], 0, 0,
                (ptl_size_t)addresses[2 * to], NULL, 0));
    wait_count (done, (ptl_size_t)size + 1);
    barrier ();
    CHECK (cell == (rank + size - 1) % size + 1000);
    barrier (); /* all have looked */
    OK (PtlFetchAtomic (md, (uintptr_t)&old, md, (uintptr_t)&one, 8, ids[to],
                        0, 0, (ptl_size_t)addresses[2 * to], NULL, 0, PTL_SUM,
                        PTL_INT64_T));
    wait_count (done, (ptl_size_t)size + 2);
    CHECK (old == local);
    fill (heap, 1 << 20, (uint64_t)rank);
    barrier ();
    OK (PtlGet (md, (uintptr_t)heap, 1 << 19, ids[to], 0, 0,
                (ptl_size_t)addresses[2 * to + 1] + (1 << 19), NULL));
    wait_count (done, (ptl_size_t)size + 3);
    addresses = calloc (1, 1 << 20);
    fill (addresses, 1 << 20, (uint64_t)to);
    CHECK (memcmp (heap, (char *)addresses + (1 << 19), 1 << 19) == 0);
    return world_close ();
}
