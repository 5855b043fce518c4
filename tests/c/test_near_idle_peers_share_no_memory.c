/* Memory is shared once there is traffic, not for a message or two. */
#include "near_ends.h"

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    static char memory[64];
    ptl_handle_md_t md;

    near_open (a, 64);
    near_open (b, 64);
    open_entry (b, open_table (b, 0), memory, sizeof (memory), 0, PTL_CT_NONE);
    md = bind_memory (a, memory, 1, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    for (int i = 0; i < 2; i++) {
        PtlPut (md, 0, 1, PTL_ACK_REQ, b->id, 0, 0, 0, NULL, 0);
        pump_until (ends, 2, a, PTL_EVENT_ACK, i + 1);
    }
    CHECK (conn_of (a)->is_near && !conn_of (a)->near);
    CHECK (conn_of (b)->is_near && !conn_of (b)->near);
    warm_up (ends, 2, a, b->id);
    CHECK (is_shared (b));
    end_close (a);
    end_close (b);
    return 0;
}
