/* PtlNIFini (spec 3.6.3): what is left of an interface is freed with it: entries, headers,
 * entries that wait for a counter, a header that was taken while its bytes
 * land. What still comes for it goes nowhere, and the other interface of the
 * process is served as before. */
#include "harness.h"

#define LARGE (16u << 20)

static struct end a;
static ptl_handle_ct_t other_ct;

static void serve (void)
{
    ptl_ct_event_t value;

    CHECK (PtlCTGet (other_ct, &value) == PTL_OK); /* makes progress */
    end_take (&a);
}

static bool has_begun (void)
{
    struct ptlx_counters counters;

    CHECK (PtlxCounters (a.ni, &counters) == PTL_OK);
    return counters.bytes_out > 1024 * 1024; /* more than a socket holds */
}

static ptl_handle_me_t append (ptl_handle_ni_t ni, void *memory, size_t size,
                               ptl_list_t list, ptl_handle_ct_t trigger)
{
    ptl_me_t me = {
        .start = memory,
        .length = size,
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT,
        .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY },
        .ignore_bits = UINT64_MAX,
        .ct_handle = PTL_CT_NONE,
    };
    ptl_handle_me_t handle;

    if (trigger != PTL_CT_NONE)
        CHECK (PtlTriggeredMEAppend (ni, 0, &me, list, NULL, &handle, trigger,
                                     9)
               == PTL_OK);
    else
        CHECK (PtlMEAppend (ni, 0, &me, list, NULL, &handle) == PTL_OK);
    return handle;
}

int main (void)
{
    struct ptlx_config config = { .listen_nid = LOOPBACK, .is_local = 1 };
    uint8_t *source = calloc (1, LARGE), *target = malloc (LARGE);
    int64_t until = now_ms () + LIMIT_MS;
    ptl_md_t none = { .options = 0, .eq_handle = PTL_EQ_NONE,
                      .ct_handle = PTL_CT_NONE };
    ptl_ct_event_t value;
    ptl_le_t le = { .uid = PTL_UID_ANY, .options = PTL_LE_OP_PUT,
                    .ct_handle = PTL_CT_NONE };
    ptl_handle_ni_t matching, other;
    ptl_handle_eq_t eq;
    ptl_handle_ct_t ct;
    ptl_handle_me_t handle;
    ptl_handle_md_t md;
    ptl_pt_index_t index;
    const struct ptlx_event *event;
    ptl_process_t id;

    CHECK (source && target && setenv ("PTL_PROGRESS", "none", 1) == 0);
    end_open_with (&a, &config, 64);
    CHECK (PtlInit () == PTL_OK);
    CHECK (PtlNIInit (PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL,
                      PTL_PID_ANY, NULL, NULL, &matching)
           == PTL_OK);
    CHECK (PtlNIInit (PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL,
                      PTL_PID_ANY, NULL, NULL, &other)
           == PTL_OK);
    CHECK (PtlGetPhysId (other, &id) == PTL_OK);
    CHECK (PtlCTAlloc (other, &other_ct) == PTL_OK);
    CHECK (PtlPTAlloc (other, 0, PTL_EQ_NONE, 0, &index) == PTL_OK);
    le.ct_handle = other_ct;
    le.options |= PTL_LE_EVENT_CT_COMM;
    CHECK (PtlLEAppend (other, 0, &le, PTL_PRIORITY_LIST, NULL, &handle)
           == PTL_OK);
    CHECK (PtlEQAlloc (matching, 64, &eq) == PTL_OK);
    CHECK (PtlCTAlloc (matching, &ct) == PTL_OK);
    CHECK (PtlPTAlloc (matching, 0, eq, 0, &index) == PTL_OK);

    md = bind_memory (&a, source, LARGE, PTL_MD_EVENT_SEND_DISABLE,
                      PTL_CT_NONE);
    append (matching, target, LARGE, PTL_OVERFLOW_LIST, PTL_CT_NONE);
    append (matching, NULL, 0, PTL_PRIORITY_LIST, ct);
    PtlPut (md, 0, 8, PTL_ACK_REQ, id, 0, 0, 0, NULL, 0);
    while (count_of (&a, PTL_EVENT_ACK) < 1) { /* one header has landed */
        CHECK (now_ms () < until);
        serve ();
    }
    for (int i = 0; i < 2; i++)
        PtlPut (md, 0, LARGE, PTL_ACK_REQ, id, 0, (unsigned)i, 0, NULL, 0);
    while (!has_begun ()) {
        CHECK (now_ms () < until);
        serve ();
    }
    handle = append (matching, NULL, 0, PTL_PRIORITY_LIST, PTL_CT_NONE);
    CHECK (PtlMEUnlink (handle) == PTL_IN_USE);
    CHECK (PtlNIFini (matching) == PTL_OK);
    CHECK (PtlMEUnlink (handle) == PTL_ARG_INVALID);
    free (target);
    while (count_of (&a, PTL_EVENT_ACK) < 3) {
        CHECK (now_ms () < until);
        serve ();
    }
    event = event_of (&a, PTL_EVENT_ACK, 2); /* not all of it had landed */
    CHECK (event->ni_fail == PTL_NI_DROPPED && event->mlength == 0);
    end_close (&a);
    CHECK (PtlMDBind (other, &none, &md) == PTL_OK);
    CHECK (PtlPut (md, 0, 0, PTL_NO_ACK_REQ, id, 0, 0, 0, NULL, 0) == PTL_OK);
    CHECK (PtlCTWait (other_ct, 1, &value) == PTL_OK && value.success == 1);
    CHECK (PtlNIFini (other) == PTL_OK);
    PtlFini ();
    free (source);
    return 0;
}
