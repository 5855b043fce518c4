#include "harness.h"

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    char source[64] = "0123456789abcdef", target[64] = { 0 };
    const struct ptlx_event *event;
    ptl_handle_md_t md;
    ptl_pt_index_t index;

    end_open (a, 16);
    end_open (b, 16);
    index = open_table (b, 0);
    open_entry (b, index, target, sizeof (target), 0, PTL_CT_NONE);
    md = bind_memory (a, source, sizeof (source), 0, PTL_CT_NONE);
    CHECK (PtlPut (md, 2, 5, PTL_ACK_REQ, b->id, index, 77, 10, &md, 99)
           == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_ACK, 1);

    CHECK (memcmp (target + 10, "23456", 5) == 0);
    CHECK (target[9] == 0 && target[15] == 0);
    event = event_of (b, PTL_EVENT_PUT, 0);
    CHECK (event && event->mlength == 5 && event->remote_offset == 10);
    CHECK (event->match_bits == 77 && event->hdr_data == 99);
    CHECK (event->nid == a->id.phys.nid && event->pid == a->id.phys.pid);
    CHECK (event->kind == PTLX_KEY_PARTITION);
    CHECK ((char *)event->start == target + 10);
    event = event_of (a, PTL_EVENT_ACK, 0);
    CHECK (event->ni_fail == PTL_NI_OK && event->mlength == 5);
    CHECK (event->user_ptr == &md && event->remote_offset == 10);
    /* SEND comes before ACK. */
    CHECK (a->log[0].type == PTL_EVENT_SEND);
    CHECK (PtlMDRelease (md) == PTL_OK);
    end_close (a);
    end_close (b);
    return 0;
}
