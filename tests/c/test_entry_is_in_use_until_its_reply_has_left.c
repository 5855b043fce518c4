/* PtlLEUnlink, PtlMEUnlink: PTL_IN_USE while an unfinished reply reads from the entry
 * (spec 3.11.3, 3.12.3); GET comes when the last byte has left, and only then
 * can the entry be unlinked, its table entry be freed, and PtlPTDisable return.
 * If the one that asked goes before, GET says UNDELIVERABLE.
 * kinds: all */
#include <pthread.h>

#include "kinds.h"

#define LARGE (16u << 20)

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static ptl_pt_index_t table;
static ptl_handle_eq_t eq;

static bool has_begun (void *context)
{
    struct ptlx_counters counters;

    (void)context;
    CHECK (PtlxCounters (a->ni, &counters) == PTL_OK);
    return counters.bytes_in > 300 * 1024;
}

static void *disable (void *context)
{
    CHECK (PtlPTDisable (b->ni, table) == PTL_OK);
    expect (eq, PTL_EVENT_GET);
    return context;
}

static void run (uint8_t *source, uint8_t *target, bool is_lost)
{
    entry_t entry = entry_of (source, LARGE,
                              PTL_LE_OP_GET | PTL_LE_EVENT_LINK_DISABLE);
    ptl_handle_me_t handle;
    ptl_handle_md_t md;
    pthread_t thread;

    kinds_open (ends, 2, 16, NULL);
    table = kinds_table (b, 0, 16, &eq);
    handle = put_entry (b, table, &entry, PTL_PRIORITY_LIST, NULL);
    md = bind_memory (a, target, LARGE, 0, PTL_CT_NONE);
    CHECK (PtlGet (md, 0, LARGE, b->id, table, 0, 0, NULL) == PTL_OK);
    pump (ends, 2, has_begun, NULL);
    CHECK (entry_unlink (handle) == PTL_IN_USE);
    CHECK (PtlPTFree (b->ni, table) == PTL_PT_IN_USE && is_empty (eq));
    if (is_lost) {
        CHECK (PtlxNIFini (a->ni, 0) == PTL_OK);
        PtlFini ();
        free (a->log);
        pump_until (b, 1, b, PTLX_EVENT_PEER_LOST, 1);
        CHECK (expect (eq, PTL_EVENT_GET).ni_fail_type
               == PTL_NI_UNDELIVERABLE);
    }
    else {
        CHECK (pthread_create (&thread, NULL, disable, NULL) == 0);
        pump_until (ends, 2, a, PTL_EVENT_REPLY, 1);
        CHECK (pthread_join (thread, NULL) == 0);
        CHECK (target[LARGE - 1] == 3);
    }
    CHECK (is_empty (eq) && entry_unlink (handle) == PTL_OK);
    CHECK (PtlPTFree (b->ni, table) == PTL_OK);
    if (!is_lost)
        end_close (a);
    end_close (b);
}

int main (void)
{
    uint8_t *source = malloc (LARGE), *target = calloc (1, LARGE);

    CHECK (source && target);
    memset (source, 3, LARGE);
    run (source, target, false);
    run (source, target, true);
    free (source);
    free (target);
    return 0;
}
