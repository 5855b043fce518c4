/* ptl_ni_limits_t (spec 3.6.1): as many objects as a limit says are there at
 * one time, one more is PTL_NO_SPACE (I/O vectors: PTL_ARG_INVALID, portal table:
 * PTL_PT_FULL, list: PTL_LIST_TOO_LONG, headers: the message is dropped), and
 * one that is freed makes room again. An operation is as long as the limit of
 * its sort, one byte more is PTL_ARG_INVALID. For the defaults, for small wishes,
 * and for every sort of triggered operation.
 * kinds: all */
#include "calls.h"

static ptl_handle_ni_t ni;
static ptl_ni_limits_t limits;
static struct given given;
static ptl_handle_any_t *handles; /* of one sort */

static void open_with (const ptl_ni_limits_t *desired)
{
    ptl_handle_ni_t again;

    CHECK (PtlNIInit (PTL_IFACE_DEFAULT, NI_OPTIONS, PTL_PID_ANY, desired,
                      &limits, &again)
           == PTL_OK);
    ni = call_interface (NI_OPTIONS);
    CHECK (ni == again && PtlNIFini (again) == PTL_OK);
    given.handles[NI] = ni;
    CHECK (PtlGetId (ni, &given.self) == PTL_OK);
}

/* ---- what has a handle ---- */

static int make_eq (ptl_handle_any_t *handle)
{
    return PtlEQAlloc (ni, 1, handle);
}

static int make_ct (ptl_handle_any_t *handle)
{
    return PtlCTAlloc (ni, handle);
}

static int make_md (ptl_handle_any_t *handle)
{
    return PtlMDBind (ni, &(ptl_md_t){ .start = NULL,
                                       .eq_handle = PTL_EQ_NONE,
                                       .ct_handle = PTL_CT_NONE }, handle);
}

static int make_entry (ptl_handle_any_t *handle)
{
    entry_t entry = entry_of (NULL, 0, PTL_LE_OP_PUT);

    return entry_append (ni, given.index, &entry, PTL_PRIORITY_LIST, NULL,
                         handle);
}

/* `limit` of them, one too many, one freed, one more, and all are freed. */
static void fill (int limit, int (*make) (ptl_handle_any_t *),
                  int (*let_go) (ptl_handle_any_t), int full)
{
    ptl_handle_any_t none;

    for (int i = 0; i < limit; i++)
        CHECK (make (&handles[i]) == PTL_OK);
    for (int i = 0; i < limit; i += limit / 2 ? limit / 2 : 1) {
        CHECK (make (&none) == full);
        CHECK (let_go (handles[i]) == PTL_OK);
        CHECK (make (&handles[i]) == PTL_OK);
    }
    CHECK (make (&none) == full);
    for (int i = 0; i < limit; i++)
        CHECK (let_go (handles[i]) == PTL_OK);
}

/* An entry that waits is in no list, but one of as many entries. */
static int make_later (ptl_handle_any_t *handle)
{
    entry_t entry = entry_of (NULL, 0, PTL_LE_OP_PUT);

    return entry_append_triggered (ni, given.index, &entry, PTL_PRIORITY_LIST,
                                   NULL, handle, given.handles[TRIGGER], 1);
}

/* A list that is full now is told of at the call. */
static void check_later (bool is_list, int most)
{
    ptl_handle_any_t none;

    CHECK (make_ct (&given.handles[TRIGGER]) == PTL_OK);
    for (int i = 0; i < most; i++)
        CHECK (make_entry (&handles[i]) == PTL_OK);
    CHECK (make_later (&none)
           == (is_list ? PTL_LIST_TOO_LONG : PTL_NO_SPACE));
    CHECK (entry_unlink (handles[0]) == PTL_OK);
    CHECK (make_later (&handles[0]) == PTL_OK);
    for (int i = 0; i < most; i++)
        CHECK (entry_unlink (handles[i]) == PTL_OK);
    CHECK (PtlCTFree (given.handles[TRIGGER]) == PTL_OK);
}

static void fill_objects (void)
{
    int most = limits.max_entries, list = limits.max_list_size;

    handles = calloc (1u << 16, sizeof (*handles));
    CHECK (handles);
    fill (limits.max_eqs, make_eq, PtlEQFree, PTL_NO_SPACE);
    fill (limits.max_cts, make_ct, PtlCTFree, PTL_NO_SPACE);
    fill (limits.max_mds, make_md, PtlMDRelease, PTL_NO_SPACE);
    CHECK (PtlPTAlloc (ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &given.index)
           == PTL_OK);
    fill (list < most ? list : most, make_entry, entry_unlink,
          list < most ? PTL_LIST_TOO_LONG : PTL_NO_SPACE);
    check_later (list < most, list < most ? list : most);
    CHECK (PtlPTFree (ni, given.index) == PTL_OK);
    free (handles);
}

/* ---- portal table: the lowest that is free ---- */

static void fill_table (void)
{
    unsigned last = (unsigned)limits.max_pt_index;
    ptl_pt_index_t index;

    for (unsigned i = 0; i <= last; i++) {
        CHECK (PtlPTAlloc (ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &index) == PTL_OK);
        CHECK (index == i);
    }
    CHECK (PtlPTAlloc (ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &index)
           == PTL_PT_FULL);
    CHECK (PtlPTAlloc (ni, 0, PTL_EQ_NONE, last, &index) == PTL_PT_IN_USE);
    CHECK (PtlPTAlloc (ni, 0, PTL_EQ_NONE, last + 1, &index)
           == PTL_ARG_INVALID);
    CHECK (PtlPTFree (ni, last) == PTL_OK);
    CHECK (PtlPTFree (ni, last / 2) == PTL_OK);
    CHECK (PtlPTFree (ni, last / 2) == PTL_ARG_INVALID);
    for (int i = 0; i < 2; i++) {
        CHECK (PtlPTAlloc (ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &index) == PTL_OK);
        CHECK (index == (i ? last : last / 2));
    }
    for (unsigned i = 0; i <= last; i++)
        CHECK (PtlPTFree (ni, i) == PTL_OK);
    CHECK (PtlPTFree (ni, last + 1) == PTL_ARG_INVALID);
    CHECK (PtlPTEnable (ni, last) == PTL_ARG_INVALID);
    CHECK (PtlPTDisable (ni, last) == PTL_ARG_INVALID);
}

/* ---- I/O vectors ---- */

static void fill_vector (void)
{
    unsigned n = (unsigned)limits.max_iovecs;
    ptl_iovec_t *pieces = calloc (n + 1, sizeof (*pieces));
    ptl_md_t md = { .start = pieces, .length = n, .options = PTL_IOVEC,
                    .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE };
    entry_t entry = entry_of (pieces, n, PTL_LE_OP_PUT | PTL_IOVEC);
    ptl_handle_any_t handle;

    CHECK (pieces);
    CHECK (PtlPTAlloc (ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &given.index)
           == PTL_OK);
    CHECK (PtlMDBind (ni, &md, &handle) == PTL_OK);
    CHECK (PtlMDRelease (handle) == PTL_OK);
    CHECK (entry_append (ni, given.index, &entry, PTL_PRIORITY_LIST, NULL,
                         &handle)
           == PTL_OK);
    CHECK (entry_unlink (handle) == PTL_OK);
    md.length = entry.length = n + 1;
    CHECK (PtlMDBind (ni, &md, &handle) == PTL_ARG_INVALID);
    CHECK (entry_append (ni, given.index, &entry, PTL_PRIORITY_LIST, NULL,
                         &handle)
           == PTL_ARG_INVALID);
    CHECK (PtlPTFree (ni, given.index) == PTL_OK);
    free (pieces);
}

/* ---- headers ---- */

static int dropped (void)
{
    ptl_sr_value_t value;

    CHECK (PtlNIStatus (ni, PTL_SR_DROP_COUNT, &value) == PTL_OK);
    return value;
}

static void fill_headers (void)
{
    int n = limits.max_unexpected_headers, before = dropped ();
    entry_t over = entry_of (NULL, 0, PTL_LE_OP_PUT);
    entry_t once = entry_of (NULL, 0, PTL_LE_OP_PUT | PTL_LE_USE_ONCE);
    ptl_handle_any_t entry, md;

    CHECK (PtlPTAlloc (ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &given.index)
           == PTL_OK);
    CHECK (entry_append (ni, given.index, &over, PTL_OVERFLOW_LIST, NULL,
                         &entry)
           == PTL_OK);
    CHECK (make_md (&md) == PTL_OK);
    for (int i = 0; i < n + 3; i++) {
        CHECK (PtlPut (md, 0, 0, PTL_NO_ACK_REQ, given.self, given.index, 0,
                       0, NULL, 0)
               == PTL_OK);
        CHECK (i < n - 1 || dropped () == before + (i < n ? 0 : i - n + 1));
    }
    CHECK (entry_search (ni, given.index, &once, PTL_SEARCH_DELETE, NULL)
           == PTL_OK);
    for (int i = 3; i < 5; i++) {
        CHECK (dropped () == before + i - (i > 3));
        CHECK (PtlPut (md, 0, 0, PTL_NO_ACK_REQ, given.self, given.index, 0,
                       0, NULL, 0)
               == PTL_OK);
    }
    CHECK (dropped () == before + 4);
    CHECK (PtlMDRelease (md) == PTL_OK);
    CHECK (PtlPTFree (ni, given.index) == PTL_PT_IN_USE);
    over.options = PTL_LE_OP_PUT;
    CHECK (entry_search (ni, given.index, &over, PTL_SEARCH_DELETE, NULL)
           == PTL_OK);
    CHECK (entry_unlink (entry) == PTL_OK);
    CHECK (PtlPTFree (ni, given.index) == PTL_OK);
}

/* ---- triggered operations ---- */

static void fill_triggers (void)
{
    int n = limits.max_triggered_ops;
    ptl_handle_ct_t ct, trigger;

    CHECK (make_ct (&ct) == PTL_OK && make_ct (&trigger) == PTL_OK);
    for (int i = 0; i < n; i++)
        CHECK (PtlTriggeredCTInc (ct, ONE, trigger, i < n / 2 ? 1 : 2)
               == PTL_OK);
    CHECK (PtlTriggeredCTInc (ct, ONE, trigger, 2) == PTL_NO_SPACE);
    CHECK (PtlCTInc (trigger, ONE) == PTL_OK); /* some are released */
    CHECK (counts (ct, (uint64_t)n / 2, 0));
    for (int i = 0; i < n / 2; i++)
        CHECK (PtlTriggeredCTSet (ct, ONE, trigger, 2) == PTL_OK);
    CHECK (PtlTriggeredCTSet (ct, ONE, trigger, 2) == PTL_NO_SPACE);
    CHECK (PtlCTCancelTriggered (trigger) == PTL_OK); /* all are gone */
    for (int i = 0; i < n; i++)
        CHECK (PtlTriggeredCTInc (ct, ONE, trigger, 3) == PTL_OK);
    CHECK (PtlTriggeredCTInc (ct, ONE, trigger, 3) == PTL_NO_SPACE);
    CHECK (PtlCTFree (trigger) == PTL_OK);
    CHECK (PtlCTFree (ct) == PTL_OK);
}

/* ---- lengths ---- */

/* The longest operations that there are, to an entry of all bytes; of a get, so
 * much only as the entry has. */
static void check_lengths (void)
{
    uint64_t atomic = limits.max_atomic_size;
    uint64_t fetch = limits.max_fetch_atomic_size;
    uint64_t most = atomic > fetch ? atomic : fetch;
    char *data = calloc (3, most);
    entry_t entry = entry_of (data, most, PTL_LE_OP_PUT | PTL_LE_OP_GET
                                              | PTL_LE_EVENT_LINK_DISABLE);
    ptl_md_t md = { .start = data + most, .length = UINT64_MAX,
                    .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE };
    ptl_event_t event;
    ptl_handle_any_t handle, eq;

    CHECK (data && PtlEQAlloc (ni, 8, &eq) == PTL_OK);
    md.eq_handle = eq;
    CHECK (PtlMDBind (ni, &md, &handle) == PTL_OK);
    CHECK (PtlPTAlloc (ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &given.index)
           == PTL_OK);
    CHECK (entry_append (ni, given.index, &entry, PTL_PRIORITY_LIST, NULL,
                         &given.handles[ENTRY])
           == PTL_OK);
    memset (data + most, 1, most);
#define WHERE given.self, given.index, 0, 0, NULL
    CHECK (PtlAtomic (handle, 0, atomic, PTL_NO_ACK_REQ, WHERE, 0, PTL_SUM,
                      PTL_UINT8_T)
           == PTL_OK);
    CHECK (data[0] == 1 && data[atomic - 1] == 1);
    CHECK (PtlAtomic (handle, 0, atomic + 1, PTL_NO_ACK_REQ, WHERE, 0,
                      PTL_SUM, PTL_UINT8_T)
           == PTL_ARG_INVALID);
    CHECK (PtlFetchAtomic (handle, most, handle, 0, fetch, WHERE, 0, PTL_SUM,
                           PTL_UINT8_T)
           == PTL_OK);
    CHECK (data[fetch - 1] == 2 && data[2 * most + fetch - 1] == 1);
    CHECK (PtlFetchAtomic (handle, most, handle, 0, fetch + 1, WHERE, 0,
                           PTL_SUM, PTL_UINT8_T)
           == PTL_ARG_INVALID);
    CHECK (PtlGet (handle, 0, limits.max_msg_size, WHERE) == PTL_OK);
    CHECK (PtlGet (handle, 0, limits.max_msg_size + 1, WHERE)
           == PTL_ARG_INVALID);
    CHECK (PtlPut (handle, 0, limits.max_msg_size + 1, PTL_NO_ACK_REQ, WHERE,
                   0)
           == PTL_ARG_INVALID);
    do
        CHECK (PtlEQWait (eq, &event) == PTL_OK);
    while (event.type != PTL_EVENT_REPLY || event.rlength == fetch);
    CHECK (event.rlength == limits.max_msg_size && event.mlength == most);
    CHECK (data[2 * most - 1] == 2);
    CHECK (entry_unlink (given.handles[ENTRY]) == PTL_OK);
    CHECK (PtlPTFree (ni, given.index) == PTL_OK);
    CHECK (PtlMDRelease (handle) == PTL_OK && PtlEQFree (eq) == PTL_OK);
    free (data);
}

static bool is_triggered (const struct call *call)
{
    return call_is_valid (call)
        && strncmp (call->name, "PtlTriggered", 12) == 0;
}

/* Each sort counts, and is refused when there are as many as may be. */
static void check_sorts (void)
{
    static const ptl_ni_limits_t one = { .max_triggered_ops = 1 };
    int sorts = 0;

    open_with (&one);
    CHECK (limits.max_triggered_ops == 1);
    call_make (ni, &given);
    for (int i = 0; i < CALLS; i++) {
        if (!is_triggered (&calls[i]))
            continue;
        sorts++;
        CHECK (calls[i].run (&given) == PTL_OK);
        for (int k = 0; k < CALLS; k++)
            if (is_triggered (&calls[k]))
                CHECK (calls[k].run (&given) == PTL_NO_SPACE);
        CHECK (PtlCTCancelTriggered (given.handles[TRIGGER]) == PTL_OK);
    }
    CHECK (sorts == 9);
    CHECK (PtlNIFini (ni) == PTL_OK);
}

static void check_all (const ptl_ni_limits_t *desired)
{
    open_with (desired);
    fill_table ();
    fill_objects ();
    fill_vector ();
    fill_headers ();
    fill_triggers ();
    check_lengths ();
    CHECK (PtlNIFini (ni) == PTL_OK);
}

int main (void)
{
    ptl_ni_limits_t small = {
        .max_entries = 9,
        .max_unexpected_headers = 5,
        .max_mds = 3,
        .max_cts = 4,
        .max_eqs = 2,
        .max_pt_index = 6,
        .max_iovecs = 3,
        .max_list_size = 8,
        .max_triggered_ops = 5,
    };

    CHECK (PtlInit () == PTL_OK);
    check_sorts ();
    check_all (&small);
    small.max_entries = 4; /* fewer than a list may have */
    small.max_pt_index = 200;
    check_all (&small);
    check_all (NULL);
    PtlFini ();
    return 0;
}
