/* PtlStartBundle, PtlEndBundle (3.17): between them nothing is written for
 * each operation; the end of the outermost, or a look for events, sends them;
 * an end without a start is PTL_ARG_INVALID. kinds: all */
#include "kinds.h"

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static uint64_t memory[8];
static ptl_pt_index_t place;
static ptl_handle_md_t md;

static uint64_t written (void)
{
    struct ptlx_counters counters;

    CHECK (PtlxCounters (a->ni, &counters) == PTL_OK);
    return counters.bytes_out;
}

static void put (int n)
{
    for (int i = 0; i < n; i++)
        CHECK (PtlPut (md, 0, 8, PTL_ACK_REQ, b->id, place, 0, 0, NULL, 0)
               == PTL_OK);
}

int main (void)
{
    entry_t entry = entry_of (memory, sizeof (memory), PTL_LE_OP_PUT);
    ptl_handle_eq_t eq;
    uint64_t before;

    kinds_open (ends, 2, 64, NULL);
    place = kinds_table (b, 0, 64, &eq);
    put_entry (b, place, &entry, PTL_PRIORITY_LIST, NULL);
    md = bind_memory (a, memory, sizeof (memory), PTL_MD_EVENT_SEND_DISABLE,
                      PTL_CT_NONE);
    put (1);
    pump_until (ends, 2, a, PTL_EVENT_ACK, 1);
    before = written ();
    CHECK (PtlEndBundle (a->ni) == PTL_ARG_INVALID);
    CHECK (PtlStartBundle (a->ni) == PTL_OK);
    put (5);
    CHECK (written () == before);
    CHECK (PtlStartBundle (a->ni) == PTL_OK);
    put (5);
    CHECK (PtlEndBundle (a->ni) == PTL_OK);
    CHECK (written () == before);
    CHECK (PtlEndBundle (a->ni) == PTL_OK);
    CHECK (written () == before + 10 * (64 + 8));
    pump_until (ends, 2, a, PTL_EVENT_ACK, 11);
    CHECK (PtlStartBundle (a->ni) == PTL_OK);
    put (3);
    end_take (a); /* looks for events: they are sent */
    pump_until (ends, 2, a, PTL_EVENT_ACK, 14);
    CHECK (PtlEndBundle (a->ni) == PTL_OK);
    CHECK (PtlStartBundle (a->ni) == PTL_OK);
    put (1);
    kinds_close (ends, 2); /* an end sends what is left */
    return 0;
}
