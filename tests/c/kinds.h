/* kinds.h - one program for all kinds of interface.
 *
 * A program that says "kinds: all" (or "kinds: matching") near its top is run with
 * KIND 0 to 3 (kind.h). It says entry_t, entry_append and so on; options have the
 * same names for both sorts of entry (PTL_LE_...). The ends of a logical interface have ranks in order.
 *
 * Events of the target go to a queue of their own and are read by PtlEQGet, as
 * a user of Portals reads them; the harness's log has those of the initiator.
 */
#ifndef KINDS_H
#define KINDS_H

#include "harness.h"

#include "kind.h"

#define ANY_BITS UINT64_C (0x5eed)
#define UID_OF_FIRST 1000u /* and so on */

/* Open `n` ends that know each other; end->id is what a put to it names. */
static inline void kinds_open (struct end *ends, int n, size_t queue,
                               const ptl_ni_limits_t *desired)
{
    struct ptlx_config config
        = { .listen_nid = LOOPBACK, .partition_key = test_key };
    ptl_process_t map[8];

    CHECK (n <= 8);
    for (int i = 0; i < n; i++) {
        struct end *end = &ends[i];

        memset (end, 0, sizeof (*end));
        config.uid = UID_OF_FIRST + (uint32_t)i;
        CHECK (PtlInit () == PTL_OK);
        CHECK (PtlxNIInitKind (&config, NI_OPTIONS, desired, NULL, &end->ni)
               == PTL_OK);
        CHECK (PtlEQAlloc (end->ni, queue, &end->eq) == PTL_OK);
        CHECK (PtlxNotify (end->ni, end->eq) == PTL_OK);
        CHECK (PtlGetPhysId (end->ni, &end->id) == PTL_OK);
        map[i] = end->id;
        end->log = calloc (MAX_LOG, sizeof (*end->log));
        CHECK (end->log);
    }
    for (int i = 0; IS_LOGICAL && i < n; i++) {
        CHECK (PtlSetMap (ends[i].ni, (ptl_size_t)n, map) == PTL_OK);
        ends[i].id = (ptl_process_t){ .rank = (ptl_rank_t)i };
    }
}

static inline void kinds_close (struct end *ends, int n)
{
    for (int i = 0; i < n; i++)
        end_close (&ends[i]);
}

/* An entry that takes everything. */
static inline entry_t entry_of (void *memory, size_t size, unsigned options)
{
    entry_t entry;

    memset (&entry, 0, sizeof (entry));
    entry.start = memory;
    entry.length = size;
    entry.ct_handle = PTL_CT_NONE;
    entry.uid = PTL_UID_ANY;
    entry.options = options;
    entry.ignore_bits = UINT64_MAX;
    entry.match_id = (ptl_process_t){ .phys = { PTL_NID_ANY, PTL_PID_ANY } };
    if (IS_LOGICAL)
        entry.match_id.rank = PTL_RANK_ANY;
    return entry;
}

static inline ptl_handle_me_t put_entry (const struct end *end,
                                         ptl_pt_index_t index,
                                         const entry_t *entry,
                                         ptl_list_t list, void *user_ptr)
{
    ptl_handle_me_t handle;

    CHECK (entry_append (end->ni, index, entry, list, user_ptr, &handle)
           == PTL_OK);
    return handle;
}

/* A table entry with a queue of its own. */
static inline ptl_pt_index_t kinds_table (const struct end *end,
                                          unsigned options, size_t queue,
                                          ptl_handle_eq_t *eq)
{
    ptl_pt_index_t index;

    CHECK (PtlEQAlloc (end->ni, queue, eq) == PTL_OK);
    CHECK (PtlPTAlloc (end->ni, options, *eq, PTL_PT_ANY, &index) == PTL_OK);
    return index;
}

/* Put and wait for its ack: events at the target are there before it. */
static inline struct ptlx_event put_to (struct end *ends, int n,
                                        struct end *from, ptl_handle_md_t md,
                                        size_t length, const struct end *to,
                                        ptl_pt_index_t index, uint64_t bits,
                                        uint64_t offset, uint64_t hdr_data)
{
    int acks = count_of (from, PTL_EVENT_ACK);

    CHECK (PtlPut (md, 0, length, PTL_ACK_REQ, to->id, index, bits, offset,
                   NULL, hdr_data)
           == PTL_OK);
    pump_until (ends, n, from, PTL_EVENT_ACK, acks + 1);
    return *event_of (from, PTL_EVENT_ACK, acks);
}

static inline ptl_event_t next_of (ptl_handle_eq_t eq)
{
    ptl_event_t event;

    CHECK (PtlEQGet (eq, &event) == PTL_OK);
    return event;
}

static inline ptl_event_t expect (ptl_handle_eq_t eq, ptl_event_kind_t type)
{
    ptl_event_t event = next_of (eq);

    if (event.type != type)
        fprintf (stderr, "event %d in place of %d\n", (int)event.type,
                 (int)type);
    CHECK (event.type == type);
    return event;
}

static inline bool is_empty (ptl_handle_eq_t eq)
{
    ptl_event_t event;

    return PtlEQGet (eq, &event) == PTL_EQ_EMPTY;
}

static inline bool is_from (const ptl_event_t *event, const struct end *end)
{
    if (IS_LOGICAL)
        return event->initiator.rank == end->id.rank;
    return event->initiator.phys.nid == end->id.phys.nid
        && event->initiator.phys.pid == end->id.phys.pid;
}

static inline int status_of (const struct end *end, ptl_sr_index_t index)
{
    ptl_sr_value_t value;

    CHECK (PtlNIStatus (end->ni, index, &value) == PTL_OK);
    return value;
}

static inline ptl_ct_event_t count_in (ptl_handle_ct_t ct)
{
    ptl_ct_event_t value;

    CHECK (PtlCTGet (ct, &value) == PTL_OK);
    return value;
}

static inline bool counts (ptl_handle_ct_t ct, uint64_t success,
                           uint64_t failure)
{
    ptl_ct_event_t value = count_in (ct);

    return value.success == success && value.failure == failure;
}

#endif
