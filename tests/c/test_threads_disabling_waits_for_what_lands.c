/* PtlPTDisable (spec 3.7.3): it returns when nothing is under way on the table entry any
 * more, whichever thread moves the bytes, and whether or not an event tells of
 * them; what comes meanwhile is refused. PtlPTEnable ends the wait.
 * kinds: all */
#include <pthread.h>

#include "kinds.h"

#define LARGE (16u << 20)

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static ptl_pt_index_t table;
static uint8_t *target;

static bool has_begun (void *context)
{
    struct ptlx_counters counters;

    (void)context;
    CHECK (PtlxCounters (b->ni, &counters) == PTL_OK);
    return counters.bytes_in > 300 * 1024;
}

static void *disable (void *context)
{
    CHECK (PtlPTDisable (b->ni, table) == PTL_OK);
    CHECK (target[LARGE - 1] == 7);
    return context;
}

static void *disable_in_vain (void *context)
{
    CHECK (PtlPTDisable (b->ni, table) == PTL_OK);
    return context;
}

static void put_large (ptl_handle_md_t md)
{
    memset (target, 0, LARGE);
    b->n = 0;
    CHECK (PtlPut (md, 0, LARGE, PTL_ACK_REQ, b->id, table, 0, 0, NULL, 0)
           == PTL_OK);
}

int main (void)
{
    uint8_t *source = malloc (LARGE);
    entry_t entry;
    ptl_handle_md_t md;
    pthread_t thread;

    target = malloc (LARGE);
    CHECK (source && target);
    memset (source, 7, LARGE);
    entry = entry_of (target, LARGE,
                      PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE
                          | PTL_LE_EVENT_COMM_DISABLE);
    kinds_open (ends, 2, 16, NULL);
    CHECK (PtlPTAlloc (b->ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &table) == PTL_OK);
    put_entry (b, table, &entry, PTL_PRIORITY_LIST, NULL);
    md = bind_memory (a, source, LARGE, PTL_MD_EVENT_SEND_DISABLE,
                      PTL_CT_NONE);
    put_large (md);
    pump (ends, 2, has_begun, NULL);
    CHECK (pthread_create (&thread, NULL, disable, NULL) == 0);
    pump_until (ends, 2, a, PTL_EVENT_ACK, 1);
    CHECK (event_of (a, PTL_EVENT_ACK, 0)->ni_fail == PTL_NI_OK);
    CHECK (pthread_join (thread, NULL) == 0);
    CHECK (put_to (ends, 2, a, md, 1, b, table, 0, 0, 0).ni_fail
           == PTL_NI_PT_DISABLED);

    CHECK (PtlPTEnable (b->ni, table) == PTL_OK);
    put_large (md);
    CHECK (pthread_create (&thread, NULL, disable_in_vain, NULL) == 0);
    pump_until (ends, 2, a, PTL_EVENT_ACK, 3);
    CHECK (PtlPTEnable (b->ni, table) == PTL_OK);
    CHECK (pthread_join (thread, NULL) == 0);
    kinds_close (ends, 2);
    free (source);
    free (target);
    return 0;
}
