/* PTL_LE_ACK_DISABLE (spec 3.11.1, 3.12.1): what the entry accepts is not acknowledged,
 * neither by event nor by count, though it was asked for; the initiator is done
 * with it all the same (its descriptor can be released). A refusal is told, and a reply
 * comes as ever.
 * kinds: all */
#include "kinds.h"

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    uint64_t source = 1, memory = 0;
    entry_t entry = entry_of (&memory, 8, PTL_LE_OP_PUT | PTL_LE_OP_GET
                                  | PTL_LE_ACK_DISABLE
                                  | PTL_LE_EVENT_LINK_DISABLE);
    ptl_handle_ct_t ct;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    ptl_pt_index_t index;

    kinds_open (ends, 2, 16, NULL);
    index = kinds_table (b, 0, 16, &eq);
    CHECK (PtlCTAlloc (a->ni, &ct) == PTL_OK);
    md = bind_memory (a, &source, 8,
                      PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_SEND_DISABLE, ct);
    put_entry (b, index, &entry, PTL_PRIORITY_LIST, NULL);
    for (ptl_ack_req_t ack = PTL_ACK_REQ; ack <= PTL_OC_ACK_REQ; ack++)
        CHECK (PtlPut (md, 0, 8, ack, b->id, index, 0, 0, NULL, 0) == PTL_OK);
    CHECK (PtlAtomic (md, 0, 8, PTL_ACK_REQ, b->id, index, 0, 0, NULL, 0,
                      PTL_SUM, PTL_UINT64_T)
           == PTL_OK);
    CHECK (PtlGet (md, 0, 8, b->id, index, 0, 0, NULL) == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_REPLY, 1);
    CHECK (memory == 2 && counts (ct, 0, 0));
    CHECK (count_of (a, PTL_EVENT_ACK) == 0);
    CHECK (put_to (ends, 2, a, md, 8, b, index + 1, 0, 0, 0).ni_fail
           == PTL_NI_DROPPED);
    CHECK (counts (ct, 0, 1));
    CHECK (PtlMDRelease (md) == PTL_OK);
    for (int i = 0; i < 3; i++)
        expect (eq, PTL_EVENT_PUT);
    expect (eq, PTL_EVENT_ATOMIC);
    expect (eq, PTL_EVENT_GET);
    kinds_close (ends, 2);
    return 0;
}
