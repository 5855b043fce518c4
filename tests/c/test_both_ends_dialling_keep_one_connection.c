/* Every pair of eight ends dials at once: each ends with seven connections,
 * no peer is lost, every message arrives. */
#include "harness.h"

#define ENDS 8
#define ROUNDS 8

static bool all_heard (void *context)
{
    const struct end *ends = context;

    for (int i = 0; i < ENDS; i++)
        if (count_of (&ends[i], PTL_EVENT_PUT) < ENDS - 1)
            return false;
    return true;
}

static void run (void)
{
    struct end ends[ENDS];
    static char memory[ENDS][64];
    struct ptlx_counters counters;

    for (int i = 0; i < ENDS; i++) {
        end_open (&ends[i], 256);
        CHECK (open_table (&ends[i], PTL_PT_FLOWCTRL) == 0);
        open_entry (&ends[i], 0, memory[i], 64, 0, PTL_CT_NONE);
    }
    for (int i = 0; i < ENDS; i++)
        for (int j = 0; j < ENDS; j++)
            if (i != j)
                CHECK (PtlxSend (ends[i].ni, ends[j].id.phys.nid,
                                 ends[j].id.phys.pid, "hello", 5)
                       == PTL_OK);
    pump (ends, ENDS, all_heard, ends);
    for (int i = 0; i < ENDS; i++) {
        CHECK (count_of (&ends[i], PTLX_EVENT_PEER_LOST) == 0);
        CHECK (count_of (&ends[i], PTL_EVENT_PUT) == ENDS - 1);
        CHECK (PtlxCounters (ends[i].ni, &counters) == PTL_OK);
        CHECK (counters.peers == ENDS - 1);
    }
    for (int i = 0; i < ENDS; i++)
        end_close (&ends[i]);
}

int main (void)
{
    for (int i = 0; i < ROUNDS; i++)
        run ();
    return 0;
}
