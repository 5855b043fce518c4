/* PtlMDBind (3.10.1), PTL_MD_VOLATILE: up to max_volatile_size the buffer may
 * change as soon as the call has returned, of a triggered operation once it
 * was released. Without it the data may be taken until SEND. kinds: all */
#include "kinds.h"

#define MOST 3000

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static uint8_t source[MOST], target[MOST], old[MOST];

int main (void)
{
    ptl_ni_limits_t limits = { .max_volatile_size = MOST };
    entry_t entry = entry_of (target, sizeof (target),
                              PTL_LE_OP_PUT | PTL_LE_OP_GET);
    ptl_iovec_t pieces[2] = { { source, 1000 }, { source + 1000, MOST - 1000 } };
    static const uint64_t lengths[] = { 1, 8, 64, 65, MOST };
    ptl_handle_md_t md[2], get;
    ptl_handle_ct_t ct;
    ptl_handle_eq_t eq;
    ptl_pt_index_t place;
    int n = 0, replies = 0;
    uint8_t operand = 1;

    kinds_open (ends, 2, 64, &limits);
    place = kinds_table (b, 0, 64, &eq);
    put_entry (b, place, &entry, PTL_PRIORITY_LIST, NULL);
    CHECK (PtlCTAlloc (a->ni, &ct) == PTL_OK);
    md[0] = bind_memory (a, source, MOST, PTL_MD_VOLATILE, PTL_CT_NONE);
    md[1] = bind_memory (a, pieces, 2, PTL_MD_VOLATILE | PTL_IOVEC,
                         PTL_CT_NONE);
    get = bind_memory (a, old, MOST, 0, PTL_CT_NONE);
    for (int k = 0; k < 10; k++) {
        uint64_t length = lengths[k % 5];

        CHECK (PtlStartBundle (a->ni) == PTL_OK); /* nothing leaves yet */
        memset (source, 7, MOST);
        CHECK (PtlPut (md[k / 5], 0, length, PTL_ACK_REQ, b->id, place, 0, 0,
                       NULL, 0)
               == PTL_OK);
        memset (source, 9, MOST);
        CHECK (PtlEndBundle (a->ni) == PTL_OK);
        pump_until (ends, 2, a, PTL_EVENT_ACK, ++n);
        CHECK (target[0] == 7 && target[length - 1] == 7);
        memset (target, 0, MOST);
    }
    CHECK (PtlStartBundle (a->ni) == PTL_OK);
    source[0] = 5;
    target[0] = 1;
    CHECK (PtlSwap (get, 0, md[0], 0, 1, b->id, place, 0, 0, NULL, 0, &operand,
                    PTL_CSWAP, PTL_UINT8_T)
           == PTL_OK);
    operand = source[0] = 77;
    CHECK (PtlEndBundle (a->ni) == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_REPLY, ++replies);
    CHECK (target[0] == 5 && old[0] == 1);
    source[0] = 1;
    CHECK (PtlTriggeredPut (md[0], 0, MOST, PTL_ACK_REQ, b->id, place, 0, 0,
                            NULL, 0, ct, 1)
           == PTL_OK);
    memset (source, 2, MOST);
    CHECK (PtlStartBundle (a->ni) == PTL_OK);
    CHECK (PtlCTInc (ct, (ptl_ct_event_t){ 1, 0 }) == PTL_OK);
    memset (source, 3, MOST);
    CHECK (PtlEndBundle (a->ni) == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_ACK, ++n);
    CHECK (target[0] == 2 && target[MOST - 1] == 2);
    kinds_close (ends, 2);
    return 0;
}
