/* Events of a FLOWCTRL entry are never lost: a queue without room refuses. */
#include "harness.h"

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    char byte = 'b', target[64];
    ptl_handle_md_t md;
    ptl_pt_index_t index;
    ptl_event_t event;
    int puts = 0, acks = 0, disabled = 0, rc;
    int64_t until = now_ms () + LIMIT_MS;

    end_open (a, 64);
    end_open (b, 4);
    index = open_table (b, PTL_PT_FLOWCTRL);
    open_entry (b, index, target, 64, 0, PTL_CT_NONE);
    md = bind_memory (a, &byte, 1, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    for (int i = 0; i < 10; i++)
        PtlPut (md, 0, 1, PTL_ACK_REQ, b->id, index, 0, 0, NULL, 0);
    while (acks < 10) { /* b drives progress without reading its queue */
        ptl_ct_event_t value;
        static ptl_handle_ct_t ct;

        CHECK (now_ms () < until);
        if (!ct)
            CHECK (PtlCTAlloc (b->ni, &ct) == PTL_OK);
        CHECK (PtlCTGet (ct, &value) == PTL_OK);
        end_take (a);
        acks = count_of (a, PTL_EVENT_ACK);
    }
    while ((rc = PtlEQGet (b->eq, &event)) == PTL_OK) {
        puts += event.type == PTL_EVENT_PUT;
        disabled += event.type == PTL_EVENT_PT_DISABLED;
    }
    CHECK (rc == PTL_EQ_EMPTY && puts == 4 && disabled == 1);
    CHECK (event_of (a, PTL_EVENT_ACK, 3)->ni_fail == PTL_NI_OK);
    CHECK (event_of (a, PTL_EVENT_ACK, 4)->ni_fail == PTL_NI_PT_DISABLED);
    end_close (a);
    end_close (b);
    return 0;
}
