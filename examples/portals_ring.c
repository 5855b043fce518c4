/* A token goes once round all ranks; each adds its number. ring.c with Portals.
 *
 * cc -o portals_ring examples/portals_ring.c $(pkg-config --cflags --libs portals4 pmi)
 * yod -sz 4 ./portals_ring
 */

#include <pmi.h>
#include <portals4.h>
#include <stdio.h>
#include <stdlib.h>

static void check (int code)
{
    if (code != PTL_OK)
        PMI_Abort (1, "a call has failed");
}

int main (void)
{
    int rank, size, spawned;
    long token = 0; /* where the others put it */
    ptl_handle_ni_t ni;
    ptl_handle_ct_t came;
    ptl_handle_me_t entry;
    ptl_handle_md_t memory;
    ptl_pt_index_t index;
    ptl_ct_event_t count;

    PMI_Init (&spawned);
    PMI_Get_rank (&rank);
    PMI_Get_size (&size);

    check (PtlInit ());
    check (PtlNIInit (PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL,
                      &ni));
    check (PtlCTAlloc (ni, &came));
    check (PtlPTAlloc (ni, 0, PTL_EQ_NONE, 0, &index));
    ptl_me_t me = { .start = &token,
                    .length = sizeof (token),
                    .ct_handle = came,
                    .uid = PTL_UID_ANY,
                    .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM,
                    .match_id.rank = PTL_RANK_ANY,
                    .match_bits = 42 };
    check (PtlMEAppend (ni, index, &me, PTL_PRIORITY_LIST, NULL, &entry));
    ptl_md_t md = { .start = &token, .length = sizeof (token),
                    .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE };
    check (PtlMDBind (ni, &md, &memory));
    PMI_Barrier (); /* everybody's entry is there */

    ptl_process_t next = { .rank = (rank + 1) % size };
    if (rank > 0) {
        check (PtlCTWait (came, 1, &count));
        token += rank;
    }
    check (PtlPut (memory, 0, sizeof (token), PTL_NO_ACK_REQ, next, index, 42, 0, NULL, 0));
    if (rank == 0) {
        check (PtlCTWait (came, 1, &count));
        printf ("ring of %d: the token came back as %ld, expected %d\n", size, token,
                size * (size - 1) / 2);
    }

    PtlFini ();
    PMI_Finalize ();
    return 0;
}
