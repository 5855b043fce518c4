/* PtlEQFree, PtlCTFree (spec 3.13.3, 3.14.3): PTL_OK, whatever posts or counts there. The
 * table entry, with flow control too, the descriptor and the entry stay as they
 * are and work; what they would have told is dropped, also of operations that
 * were under way, and a waiting append with that counter is linked all the same.
 * kinds: all */
#include "kinds.h"

#define LARGE (4u << 20)

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static uint8_t *source, *target;

static bool has_begun (void *context)
{
    struct ptlx_counters counters;

    (void)context;
    CHECK (PtlxCounters (b->ni, &counters) == PTL_OK);
    return counters.bytes_in > 300 * 1024;
}

static bool has_landed (void *context)
{
    (void)context;
    return target[LARGE - 1] == 7;
}

static ptl_handle_md_t bind (ptl_handle_eq_t eq, ptl_handle_ct_t ct)
{
    ptl_md_t md = { .start = source,
                    .length = LARGE,
                    .options = PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_ACK,
                    .eq_handle = eq,
                    .ct_handle = ct };
    ptl_handle_md_t handle;

    CHECK (PtlMDBind (a->ni, &md, &handle) == PTL_OK);
    return handle;
}

/* Everything is freed while a large put is under way. */
static void under_way (unsigned table_options)
{
    entry_t entry = entry_of (target, LARGE,
                              PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM);
    ptl_handle_eq_t eq, own_eq;
    ptl_handle_ct_t own_ct;
    ptl_handle_me_t me;
    ptl_handle_md_t md;
    ptl_pt_index_t table = kinds_table (b, table_options, 8, &eq);
    int rc;

    memset (target, 0, LARGE);
    CHECK (PtlEQAlloc (a->ni, 8, &own_eq) == PTL_OK);
    CHECK (PtlCTAlloc (a->ni, &own_ct) == PTL_OK);
    CHECK (PtlCTAlloc (b->ni, &entry.ct_handle) == PTL_OK);
    me = put_entry (b, table, &entry, PTL_PRIORITY_LIST, NULL);
    md = bind (own_eq, own_ct);
    CHECK (PtlPut (md, 0, LARGE, PTL_ACK_REQ, b->id, table, 0, 0, NULL, 0)
           == PTL_OK);
    pump (ends, 2, has_begun, NULL);
    CHECK (PtlEQFree (own_eq) == PTL_OK && PtlCTFree (own_ct) == PTL_OK);
    CHECK (PtlEQFree (eq) == PTL_OK);
    CHECK (PtlCTFree (entry.ct_handle) == PTL_OK);
    CHECK (PtlEQFree (eq) == PTL_ARG_INVALID);
    CHECK (PtlCTFree (entry.ct_handle) == PTL_ARG_INVALID);
    pump (ends, 2, has_landed, NULL);
    while ((rc = PtlMDRelease (md)) == PTL_IN_USE || entry_unlink (me))
        for (int i = 0; i < 2; i++)
            end_take (&ends[i]);
    CHECK (rc == PTL_OK);
    CHECK (PtlPTFree (b->ni, table) == PTL_OK);
}

/* What is there works on: a put, and its ack in a new queue. */
static void afterwards (unsigned table_options)
{
    entry_t entry = entry_of (target, 8, PTL_LE_OP_PUT);
    ptl_handle_eq_t eq;
    ptl_handle_md_t md = bind_memory (a, source, 8, PTL_MD_EVENT_SEND_DISABLE,
                                      PTL_CT_NONE);
    ptl_pt_index_t table = kinds_table (b, table_options, 1, &eq);
    ptl_handle_me_t me = put_entry (b, table, &entry, PTL_PRIORITY_LIST, NULL);

    CHECK (PtlEQFree (eq) == PTL_OK);
    for (int i = 0; i < 4; i++)
        CHECK (put_to (ends, 2, a, md, 8, b, table, 0, 0, 0).ni_fail
               == PTL_NI_OK);
    CHECK (entry_unlink (me) == PTL_OK);
    CHECK (put_to (ends, 2, a, md, 8, b, table, 0, 0, 0).ni_fail
           == (table_options & PTL_PT_FLOWCTRL ? PTL_NI_PT_DISABLED
                                               : PTL_NI_DROPPED));
    CHECK (PtlPTEnable (b->ni, table) == PTL_OK);
    CHECK (PtlPTFree (b->ni, table) == PTL_OK);
    CHECK (PtlMDRelease (md) == PTL_OK);
}

static void waiting_append (void)
{
    entry_t entry = entry_of (target, 8, PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM);
    ptl_handle_ct_t trigger;
    ptl_handle_me_t handle;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md = bind_memory (a, source, 8, PTL_MD_EVENT_SEND_DISABLE,
                                      PTL_CT_NONE);
    ptl_pt_index_t table = kinds_table (b, 0, 8, &eq);

    CHECK (PtlCTAlloc (b->ni, &trigger) == PTL_OK);
    CHECK (PtlCTAlloc (b->ni, &entry.ct_handle) == PTL_OK);
    CHECK (entry_append_triggered (b->ni, table, &entry, PTL_PRIORITY_LIST,
                                   NULL, &handle, trigger, 1)
           == PTL_OK);
    CHECK (PtlCTFree (entry.ct_handle) == PTL_OK);
    CHECK (PtlCTInc (trigger, (ptl_ct_event_t){ 1, 0 }) == PTL_OK);
    expect (eq, PTL_EVENT_LINK);
    CHECK (put_to (ends, 2, a, md, 8, b, table, 0, 0, 0).ni_fail
           == PTL_NI_OK);
    CHECK (entry_unlink (handle) == PTL_OK);
    CHECK (PtlPTFree (b->ni, table) == PTL_OK);
}

int main (void)
{
    CHECK ((source = malloc (LARGE)) && (target = malloc (LARGE)));
    memset (source, 7, LARGE);
    kinds_open (ends, 2, 64, NULL);
    under_way (0);
    under_way (PTL_PT_FLOWCTRL);
    afterwards (0);
    afterwards (PTL_PT_FLOWCTRL);
    waiting_append ();
    kinds_close (ends, 2);
    free (source);
    free (target);
    return 0;
}
