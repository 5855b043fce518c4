/* PtlLEAppend, PtlMEAppend (spec 3.11.2, 3.12.2), PtlPTDisable (3.7.3), PTL_IN_USE: an entry
 * is appended while a large message still lands in the overflow list. It takes
 * the header at once, and PUT_OVERFLOW comes after PUT, when all bytes are
 * there; until then neither can be unlinked. PtlPTDisable does not return
 * before that, and posts no PT_DISABLED.
 * kinds: all */
#include <pthread.h>

#include "kinds.h"

#define LARGE (8u << 20)

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static ptl_pt_index_t table;
static ptl_handle_eq_t eq;

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
    expect (eq, PTL_EVENT_PUT); /* it is there when the call returns */
    return context;
}

static uint32_t refused_with (ptl_handle_md_t md)
{
    return put_to (ends, 2, a, md, 1, b, table, 0, 0, 0).ni_fail;
}

static void run (uint8_t *source, uint8_t *slab, unsigned options)
{
    entry_t entry = entry_of (slab, LARGE,
                              PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE);
    ptl_handle_me_t over, taker;
    ptl_handle_md_t md;
    ptl_event_t event;
    pthread_t thread;
    char user;

    kinds_open (ends, 2, 16, NULL);
    memset (slab, 0, LARGE);
    table = kinds_table (b, 0, 16, &eq);
    over = put_entry (b, table, &entry, PTL_OVERFLOW_LIST, NULL);
    md = bind_memory (a, source, LARGE, PTL_MD_EVENT_SEND_DISABLE,
                      PTL_CT_NONE);
    CHECK (PtlPut (md, 0, LARGE, PTL_ACK_REQ, b->id, table, 0, 0, NULL, 5)
           == PTL_OK);
    pump (ends, 2, has_begun, NULL);
    entry.start = NULL;
    entry.length = 0;
    entry.options |= options;
    taker = put_entry (b, table, &entry, PTL_PRIORITY_LIST, &user);
    CHECK (entry_unlink (taker) == PTL_IN_USE);
    CHECK (entry_unlink (over) == PTL_IN_USE);
    CHECK (pthread_create (&thread, NULL, disable, NULL) == 0);
    pump_until (ends, 2, a, PTL_EVENT_ACK, 1);
    CHECK (pthread_join (thread, NULL) == 0);
    event = expect (eq, PTL_EVENT_PUT_OVERFLOW);
    CHECK (event.user_ptr == &user && event.mlength == LARGE);
    CHECK (event.start == slab && event.hdr_data == 5 && slab[LARGE - 1] == 7);
    if (options & PTL_LE_USE_ONCE)
        CHECK (expect (eq, PTL_EVENT_AUTO_UNLINK).user_ptr == &user);
    CHECK (refused_with (md) == PTL_NI_PT_DISABLED);
    CHECK (is_empty (eq));
    CHECK (entry_unlink (over) == PTL_OK);
    CHECK (entry_unlink (taker)
           == (options & PTL_LE_USE_ONCE ? PTL_ARG_INVALID : PTL_OK));
    CHECK (PtlPTEnable (b->ni, table) == PTL_OK);
    CHECK (refused_with (md) == PTL_NI_DROPPED);
    kinds_close (ends, 2);
}

int main (void)
{
    uint8_t *source = malloc (LARGE), *slab = malloc (LARGE);

    CHECK (source && slab);
    memset (source, 7, LARGE);
    run (source, slab, PTL_LE_USE_ONCE);
    run (source, slab, 0);
    free (source);
    free (slab);
    return 0;
}
