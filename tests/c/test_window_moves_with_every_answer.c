/* FRAMES.md 3, rule 4: more operations than may await their answer are begun
 * at once, of every sort and in every lane; all are done, in order. */
#include "harness.h"

#define MANY 3000
#define SOME 400

static bool has_arrived (void *context)
{
    const struct end *end = context;

    return count_of (end, PTL_EVENT_PUT) >= MANY;
}

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    static uint8_t memory[65536], copy[65536], messages[MANY * 8];
    ptl_handle_md_t md, get;
    ptl_pt_index_t index;
    uint64_t n;

    end_open (a, 8192);
    end_open (b, 8192);
    CHECK (open_table (b, 0) == 0);
    index = open_table (b, 0);
    open_entry (b, 0, messages, sizeof (messages), PTL_ME_MANAGE_LOCAL,
                PTL_CT_NONE);
    for (n = 0; n < MANY; n++)
        CHECK (PtlxSend (a->ni, b->id.phys.nid, b->id.phys.pid, &n, 8)
               == PTL_OK);
    pump (ends, 2, has_arrived, b);
    for (n = 0; n < MANY; n++)
        CHECK (memcmp (messages + 8 * n, &n, 8) == 0);
    open_entry (b, index, memory, sizeof (memory), PTL_ME_OP_GET, PTL_CT_NONE);
    md = bind_memory (a, copy, sizeof (copy),
                      PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    get = bind_memory (a, copy, sizeof (copy), 0, PTL_CT_NONE);
    b->n = a->n = 0;
    for (n = 0; n < MANY; n++)
        CHECK (PtlPut (md, 0, 8, PTL_ACK_REQ, b->id, index, 0, 0, NULL, n)
               == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_ACK, MANY);
    b->n = a->n = 0;
    for (n = 0; n < MANY; n++)
        CHECK (PtlGet (get, 0, 5000, b->id, index, 0, 0, NULL) == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_REPLY, MANY);
    b->n = a->n = 0;
    for (n = 0; n < SOME; n++)
        CHECK (PtlFetchAtomic (get, 0, md, 0, 65536, b->id, index, 0, 0, NULL,
                               0, PTL_BXOR, PTL_UINT64_T)
               == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_REPLY, SOME);
    for (int i = 0; i < a->n; i++)
        CHECK (a->log[i].ni_fail == PTL_NI_OK);
    end_close (a);
    end_close (b);
    return 0;
}
