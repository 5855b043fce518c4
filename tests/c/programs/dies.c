/* The last rank kills itself in the middle of a large put, the one before ends
 * without PtlFini. What is sent to them ends UNDELIVERABLE (3.13.3), memory that
 * they wrote to can be unlinked, and the others talk on.
 *
 * kinds: all
 */
#include "world.h"

#define LARGE ((size_t)32 << 20)
#define BEFORE 20

static ptl_handle_ni_t ni;
static ptl_process_t *ids;
static ptl_handle_eq_t eq;
static ptl_handle_md_t md;
static uint64_t word;

static ptl_ni_fail_t put (int to)
{
    ptl_event_t event;

    OK (PtlPut (md, 0, 8, PTL_ACK_REQ, ids[to], 0, 0, 8 * (ptl_size_t)rank,
                NULL, 0));
    OK (PtlEQWait (eq, &event));
    CHECK (event.type == PTL_EVENT_ACK);
    return event.ni_fail_type;
}

static void die (ptl_handle_ct_t came, void *large)
{
    ptl_handle_md_t large_md
        = bind_md (ni, large, LARGE, 0, PTL_EQ_NONE, PTL_CT_NONE);

    wait_count (came, BEFORE);
    OK (PtlPut (large_md, 0, LARGE, PTL_NO_ACK_REQ, ids[0], 1, 0, 0, NULL,
                0));
    raise (SIGKILL);
}

int main (void)
{
    static uint64_t cells[64];
    unsigned char *large = calloc (1, LARGE);
    ptl_handle_ct_t came;
    ptl_handle_me_t handle;
    ptl_pt_index_t pt;
    entry_t entry;
    int dead, gone, code;

    world_open ();
    dead = size - 1;
    gone = size - 2;
    CHECK (size >= 4 && large);
    ids = world_interface (NI_OPTIONS, NULL, NULL, &ni);
    OK (PtlCTAlloc (ni, &came));
    OK (PtlEQAlloc (ni, 64, &eq));
    expose (ni, 0, cells, sizeof (cells), PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM,
            came);
    OK (PtlPTAlloc (ni, 0, PTL_EQ_NONE, 1, &pt));
    entry = entry_of (large, LARGE, PTL_LE_OP_PUT, PTL_CT_NONE);
    OK (entry_append (ni, 1, &entry, PTL_PRIORITY_LIST, NULL, &handle));
    md = bind_md (ni, &word, 8, PTL_MD_EVENT_SEND_DISABLE, eq, PTL_CT_NONE);
    barrier ();
    if (rank == dead)
        die (came, large);
    if (rank == gone) {
        wait_count (came, BEFORE);
        _exit (0);
    }
    for (int to = gone; to <= dead; to++) {
        ptl_ni_fail_t verdict;

        for (int i = 0; i < BEFORE; i++)
            if ((verdict = put (to)) != PTL_NI_OK)
                break;
        while ((verdict = put (to)) == PTL_NI_OK)
            ;
        CHECK (verdict == PTL_NI_UNDELIVERABLE);
        CHECK (put (to) == PTL_NI_UNDELIVERABLE);
    }
    while ((code = entry_unlink (handle)) == PTL_IN_USE)
        ;
    OK (code);
    for (int to = 0; to < gone; to++)
        CHECK (put (to) == PTL_NI_OK);
    wait_count (came, (ptl_size_t)gone);
    printf ("rank %d is fine\n", rank);
    fflush (stdout);
    PtlFini ();
    return 0;
}
