/* Two jobs cannot reach one another.
 *
 *   apart            says where its ranks are, waits for the end of its input,
 *                    and has seen nothing
 *   apart NID PID... puts and gets there, in vain
 */
#define KIND 0
#include "world.h"

static ptl_handle_ni_t ni;
static ptl_process_t *ids;

static void wait_in_vain (void)
{
    static uint64_t cells[8];
    ptl_handle_ct_t came;
    ptl_ct_event_t value;
    int n;

    OK (PtlCTAlloc (ni, &came));
    expose (ni, 0, cells, sizeof (cells),
            PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_CT_COMM, came);
    barrier ();
    if (rank == 0) {
        for (int i = 0; i < size; i++)
            printf ("%u %u ", ids[i].phys.nid, ids[i].phys.pid);
        printf ("\n");
        fflush (stdout);
        while (getchar () != EOF)
            ;
    }
    barrier ();
    OK (PtlCTGet (came, &value));
    CHECK (value.success == 0 && value.failure == 0 && cells[0] == 0);
    OK (PtlNIStatus (ni, PTL_SR_DROP_COUNT, &n));
    CHECK (n == 0);
}

static void try (ptl_process_t to)
{
    uint64_t word = 1;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    ptl_event_t event;

    OK (PtlEQAlloc (ni, 8, &eq));
    md = bind_md (ni, &word, 8, PTL_MD_EVENT_SEND_DISABLE, eq, PTL_CT_NONE);
    OK (PtlPut (md, 0, 8, PTL_ACK_REQ, to, 0, 0, 0, NULL, 0));
    OK (PtlEQWait (eq, &event));
    CHECK (event.type == PTL_EVENT_ACK
           && event.ni_fail_type == PTL_NI_UNDELIVERABLE);
    OK (PtlGet (md, 0, 8, to, 0, 0, 0, NULL));
    OK (PtlEQWait (eq, &event));
    CHECK (event.type == PTL_EVENT_REPLY
           && event.ni_fail_type == PTL_NI_UNDELIVERABLE);
    OK (PtlMDRelease (md));
}

int main (int argc, char **argv)
{
    world_open ();
    ids = world_interface (NI_OPTIONS, NULL, NULL, &ni);
    if (argc < 3)
        wait_in_vain ();
    for (int i = 1; i + 1 < argc; i += 2) {
        ptl_process_t to;

        to.phys.nid = (ptl_nid_t)strtoul (argv[i], NULL, 10);
        to.phys.pid = (ptl_pid_t)strtoul (argv[i + 1], NULL, 10);
        try (to);
    }
    return world_close ();
}
