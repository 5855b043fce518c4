/* PtlNIFini (spec 3.6.3), PtlStartBundle, PtlEndBundle (3.17): the interface ends with
 * all that was made on it, linked or not, in use or not, while large messages
 * go both ways, with unread events, headers, triggered operations and open
 * bundles; sanitizers see that nothing is left behind and nothing is touched
 * afterwards. What was put to it ends at the initiator. Other interfaces of
 * both processes keep working. Operations of a bundle, nested or not, arrive.
 * kinds: all */
#include "kinds.h"
#include "pair.h"

#define LARGE (2u << 20)
#define N 4
#define OTHER (NI_OPTIONS ^ PTL_NI_LOGICAL ^ PTL_NI_PHYSICAL)

struct side {
    ptl_handle_ni_t ni;
    ptl_process_t peer;
    ptl_handle_eq_t target, initiator;
    ptl_handle_ct_t ct;
    ptl_handle_md_t md;
    ptl_pt_index_t index;
};

static struct pair pair;
static struct side doomed, other;
static char *to, *from; /* LARGE */
static char small[64];

static void append_to (const struct side *side, void *memory, size_t size,
                       ptl_list_t list)
{
    entry_t entry = entry_of (memory, size, PTL_LE_OP_PUT | PTL_LE_OP_GET);
    ptl_handle_any_t handle;

    entry.match_id.phys.nid = PTL_NID_ANY; /* PTL_RANK_ANY, too */
    entry.match_id.phys.pid = PTL_PID_ANY;
    CHECK (entry_append (side->ni, side->index, &entry, list, NULL, &handle)
           == PTL_OK);
}

static void open_side (struct side *side, void *memory, size_t size)
{
    ptl_md_t md = { .start = memory, .length = size,
                    .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE };

    CHECK (PtlEQAlloc (side->ni, 256, &side->target) == PTL_OK);
    CHECK (PtlEQAlloc (side->ni, 256, &side->initiator) == PTL_OK);
    CHECK (PtlCTAlloc (side->ni, &side->ct) == PTL_OK);
    md.eq_handle = side->initiator;
    md.ct_handle = side->ct;
    CHECK (PtlMDBind (side->ni, &md, &side->md) == PTL_OK);
    CHECK (PtlPTAlloc (side->ni, 0, side->target, 3, &side->index)
           == PTL_OK);
}

/* The other interface: of the other way of naming processes. */
static void open_other (void)
{
    ptl_process_t map[2], id;

    CHECK (PtlNIInit (PTL_IFACE_DEFAULT, OTHER, PTL_PID_ANY, NULL, NULL,
                      &other.ni)
           == PTL_OK);
    CHECK (PtlGetPhysId (other.ni, &id) == PTL_OK);
    map[pair.rank] = id;
    pair_say (&pair, &id, sizeof (id));
    pair_hear (&pair, &map[!pair.rank], sizeof (id));
    other.peer = map[!pair.rank];
    if (OTHER & PTL_NI_LOGICAL) {
        CHECK (PtlSetMap (other.ni, 2, map) == PTL_OK);
        other.peer.rank = (ptl_rank_t)!pair.rank;
    }
}

/* `n` puts, in bundles, are acknowledged. */
static void puts_arrive (const struct side *side, int n)
{
    ptl_event_t event;
    int acks = 0;

    CHECK (PtlStartBundle (side->ni) == PTL_OK);
    for (int i = 0; i < n; i++) {
        CHECK (PtlStartBundle (side->ni) == PTL_OK);
        CHECK (PtlPut (side->md, 0, 8, PTL_ACK_REQ, side->peer, side->index,
                       0, 0, NULL, 0)
               == PTL_OK);
        CHECK (PtlEndBundle (side->ni) == PTL_OK);
    }
    CHECK (PtlEndBundle (side->ni) == PTL_OK);
    CHECK (PtlEndBundle (side->ni) == PTL_ARG_INVALID);
    while (acks < n) {
        CHECK (PtlEQWait (side->initiator, &event) == PTL_OK);
        CHECK (event.ni_fail_type == PTL_NI_OK);
        acks += event.type == PTL_EVENT_ACK;
    }
}

/* Large messages both ways, and every sort of thing that can be left. */
static void leave_much (void)
{
    static const ptl_ct_event_t one = { 1, 0 };
    entry_t entry = entry_of (small, 8, PTL_LE_OP_PUT);
    ptl_handle_any_t handle;

    for (int i = 0; i < N; i++) {
        CHECK (PtlPut (doomed.md, 0, LARGE, PTL_ACK_REQ, doomed.peer, 3, 0, 0,
                       NULL, 0)
               == PTL_OK);
        CHECK (PtlGet (doomed.md, 0, LARGE, doomed.peer, 3, 0, 0, NULL)
               == PTL_OK);
        CHECK (PtlTriggeredPut (doomed.md, 0, 8, PTL_ACK_REQ, doomed.peer, 3,
                                0, 0, NULL, 0, doomed.ct, UINT64_MAX)
               == PTL_OK);
        CHECK (PtlTriggeredCTInc (doomed.ct, one, doomed.ct, UINT64_MAX)
               == PTL_OK);
        CHECK (entry_append_triggered (doomed.ni, 3, &entry,
                                       PTL_PRIORITY_LIST, NULL, &handle,
                                       doomed.ct, UINT64_MAX)
               == PTL_OK);
        CHECK (entry_unlink_triggered (handle, doomed.ct, UINT64_MAX)
               == PTL_OK);
        CHECK (PtlStartBundle (doomed.ni) == PTL_OK);
    }
}

/* What was meant for an interface that has gone ends. */
static void all_ends (void)
{
    ptl_event_t event;

    for (int acks = 0, replies = 0; acks < N || replies < N;) {
        CHECK (PtlEQWait (doomed.initiator, &event) == PTL_OK);
        acks += event.type == PTL_EVENT_ACK;
        replies += event.type == PTL_EVENT_REPLY;
    }
}

static void run (void)
{
    ptl_process_t again;

    puts_arrive (&other, 3);
    puts_arrive (&doomed, 3); /* headers, and events that nobody reads */
    pair_meet (&pair);
    if (pair.rank == 0) {
        leave_much ();
        pair_meet (&pair); /* the other's are under way, too */
        CHECK (PtlNIFini (doomed.ni) == PTL_OK);
        memset (to, 1, LARGE); /* nobody uses it any more */
        memset (from, 2, LARGE);
        CHECK (PtlPTFree (doomed.ni, 3) == PTL_ARG_INVALID);
    }
    else {
        for (int i = 0; i < N; i++) {
            CHECK (PtlPut (doomed.md, 0, LARGE, PTL_ACK_REQ, doomed.peer, 3,
                           0, 0, NULL, 0)
                   == PTL_OK);
            CHECK (PtlGet (doomed.md, 0, LARGE, doomed.peer, 3, 0, 0, NULL)
                   == PTL_OK);
        }
        pair_meet (&pair);
        all_ends ();
    }
    puts_arrive (&other, 3);
    pair_meet (&pair);
    CHECK (PtlGetPhysId (other.ni, &again) == PTL_OK);
}

int main (void)
{
    int failed;

    CHECK ((to = calloc (1, LARGE)) && (from = calloc (1, LARGE)));
    pair_open (&pair, NI_OPTIONS);
    doomed.ni = pair.ni;
    doomed.peer = pair.other;
    open_side (&doomed, from, LARGE);
    append_to (&doomed, to, LARGE, PTL_OVERFLOW_LIST);
    open_other ();
    open_side (&other, small, sizeof (small));
    append_to (&other, small, sizeof (small), PTL_PRIORITY_LIST);
    pair_meet (&pair);
    run ();
    pair.ni = other.ni; /* the last one of the parent */
    failed = pair_close (&pair);
    free (to);
    free (from);
    return failed;
}
