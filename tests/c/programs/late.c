/* A rank may begin late: it has been there, for the others, since before it was
 * started. Longer than connecting to a stranger may take, so this takes time.
 */
#define KIND 1
#include "world.h"

#define LATE_S 6

int main (void)
{
    static uint64_t cells[2] = { 7 };
    ptl_process_t next = { .rank = 1 };
    ptl_handle_ni_t ni;
    ptl_handle_ct_t came;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    ptl_event_t event;

    world_open ();
    if (rank == 1)
        sleep (LATE_S);
    OK (PtlNIInit (PTL_IFACE_DEFAULT, NI_OPTIONS,
                   PTL_PID_ANY, NULL, NULL, &ni));
    OK (PtlCTAlloc (ni, &came));
    OK (PtlEQAlloc (ni, 8, &eq));
    expose (ni, 0, &cells[1], 8, PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM, came);
    md = bind_md (ni, cells, 8, PTL_MD_EVENT_SEND_DISABLE, eq, PTL_CT_NONE);
    if (rank == 0)
        do { /* it may be there before its entry is */
            OK (PtlPut (md, 0, 8, PTL_ACK_REQ, next, 0, 0, 0, NULL, 0));
            OK (PtlEQWait (eq, &event));
            CHECK (event.type == PTL_EVENT_ACK
                   && event.ni_fail_type != PTL_NI_UNDELIVERABLE);
        } while (event.ni_fail_type != PTL_NI_OK);
    if (rank == 1) {
        wait_count (came, 1);
        CHECK (cells[1] == 7);
    }
    return world_close ();
}
