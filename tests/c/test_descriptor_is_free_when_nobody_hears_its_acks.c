/* PtlPut, PtlAtomic, PtlMDRelease (spec 3.10, 3.15): an ack that is counted nowhere and
 * posted nowhere is not asked for, so that a descriptor can be released as soon
 * as the counted send says that its bytes have left; one whose ack is counted or
 * posted is in use until that has come, and so is that of a get.
 * kinds: all */
#include "kinds.h"

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static ptl_pt_index_t table;
static uint64_t source, target;

static ptl_handle_md_t bind (unsigned options, ptl_handle_eq_t eq,
                             ptl_handle_ct_t ct)
{
    ptl_md_t md = { .start = &source, .length = 8, .options = options,
                    .eq_handle = eq, .ct_handle = ct };
    ptl_handle_md_t handle;

    CHECK (PtlMDBind (a->ni, &md, &handle) == PTL_OK);
    return handle;
}

static int put (ptl_handle_md_t md, ptl_ack_req_t ack)
{
    return PtlPut (md, 0, 8, ack, b->id, table, 0, 0, NULL, 0);
}

static bool has_counted (void *context)
{
    return count_in (*(ptl_handle_ct_t *)context).success > 0;
}

/* Only one end is driven: nothing that the other one owes can come. */
static void released_after_the_send (ptl_ack_req_t ack, ptl_handle_eq_t eq)
{
    ptl_handle_ct_t sent;
    ptl_handle_md_t md;

    CHECK (PtlCTAlloc (a->ni, &sent) == PTL_OK);
    md = bind (PTL_MD_EVENT_CT_SEND, eq, sent);
    CHECK (put (md, ack) == PTL_OK);
    CHECK (PtlAtomic (md, 0, 8, ack, b->id, table, 0, 0, NULL, 0, PTL_SUM,
                      PTL_UINT64_T)
           == PTL_OK);
    pump (a, 1, has_counted, &sent);
    CHECK (counts (sent, 2, 0));
    CHECK (PtlMDRelease (md) == PTL_OK);
    CHECK (PtlCTFree (sent) == PTL_OK);
}

static void kept_for_its_ack (unsigned options, ptl_ack_req_t ack,
                              ptl_handle_eq_t eq)
{
    ptl_handle_ct_t acked;
    ptl_handle_md_t md;

    CHECK (PtlCTAlloc (a->ni, &acked) == PTL_OK);
    md = bind (options, eq, acked);
    CHECK (put (md, ack) == PTL_OK);
    CHECK (PtlMDRelease (md) == PTL_IN_USE);
    if (options & PTL_MD_EVENT_CT_ACK)
        pump (ends, 2, has_counted, &acked);
    else
        pump_until (ends, 2, a, PTL_EVENT_ACK,
                    count_of (a, PTL_EVENT_ACK) + 1);
    CHECK (PtlMDRelease (md) == PTL_OK);
    CHECK (PtlCTFree (acked) == PTL_OK);
}

static void kept_for_its_reply (void)
{
    ptl_handle_ct_t replied;
    ptl_handle_md_t md;

    CHECK (PtlCTAlloc (a->ni, &replied) == PTL_OK);
    md = bind (PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, replied);
    CHECK (PtlGet (md, 0, 8, b->id, table, 0, 0, NULL) == PTL_OK);
    CHECK (PtlMDRelease (md) == PTL_IN_USE);
    pump (ends, 2, has_counted, &replied);
    CHECK (PtlMDRelease (md) == PTL_OK);
}

int main (void)
{
    ptl_handle_eq_t eq;
    entry_t entry = entry_of (&target, 8, PTL_LE_OP_PUT | PTL_LE_OP_GET);

    kinds_open (ends, 2, 64, NULL);
    table = kinds_table (b, 0, 64, &eq);
    put_entry (b, table, &entry, PTL_PRIORITY_LIST, NULL);
    kept_for_its_ack (PTL_MD_EVENT_CT_ACK, PTL_CT_ACK_REQ, PTL_EQ_NONE);
    kept_for_its_ack (PTL_MD_EVENT_CT_ACK, PTL_OC_ACK_REQ, PTL_EQ_NONE);
    kept_for_its_ack (PTL_MD_EVENT_SEND_DISABLE, PTL_ACK_REQ, a->eq);
    kept_for_its_reply ();
    released_after_the_send (PTL_CT_ACK_REQ, PTL_EQ_NONE);
    released_after_the_send (PTL_OC_ACK_REQ, PTL_EQ_NONE);
    released_after_the_send (PTL_CT_ACK_REQ, a->eq); /* which has no such event */
    released_after_the_send (PTL_NO_ACK_REQ, PTL_EQ_NONE);
    CHECK (count_of (a, PTL_EVENT_ACK) == 1);
    kinds_close (ends, 2);
    return 0;
}
