/* PtlNIInit, PtlNIFini, PtlNIHandle, PtlNIStatus, PtlSetMap, PtlGetMap, PtlGetId, PtlGetPhysId
 * (spec 3.6, 3.9): a process has the four kinds of interface at once, under
 * one id and each counted. What is put to one of them is seen by no other, nor
 * are its headers, registers, limits and map. One that ends leaves the others
 * at work. PTL_PID_IN_USE: the process has another pid, or another process has
 * the port. PTL_FAIL: what the environment says cannot be had.
 */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "portals4.h"

#define KINDS 4

static const unsigned options[KINDS] = {
    PTL_NI_MATCHING | PTL_NI_PHYSICAL,
    PTL_NI_MATCHING | PTL_NI_LOGICAL,
    PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL,
    PTL_NI_NO_MATCHING | PTL_NI_LOGICAL,
};

static struct side {
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq, own;
    ptl_handle_md_t md;
    ptl_pt_index_t index;
    uint64_t memory, data;
} sides[KINDS];
static ptl_process_t id;

static int init (unsigned kind, ptl_pid_t pid, const ptl_ni_limits_t *limits,
                 ptl_handle_ni_t *ni)
{
    return PtlNIInit (PTL_IFACE_DEFAULT, kind, pid, limits, NULL, ni);
}

static bool is_same (ptl_process_t a, ptl_process_t b)
{
    return a.phys.nid == b.phys.nid && a.phys.pid == b.phys.pid;
}

/* ---- beginning ---- */

static void check_pids (void)
{
    ptl_handle_ni_t ni;
    struct sockaddr_in at = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl (LOOPBACK),
    };
    socklen_t length = sizeof (at);
    int fd = socket (AF_INET, SOCK_STREAM, 0);

    CHECK (fd >= 0 && bind (fd, (struct sockaddr *)&at, sizeof (at)) == 0);
    CHECK (listen (fd, 1) == 0);
    CHECK (getsockname (fd, (struct sockaddr *)&at, &length) == 0);
    CHECK (init (options[0], ntohs (at.sin_port), NULL, &ni)
           == PTL_PID_IN_USE);
    close (fd);
    CHECK (init (options[0], ntohs (at.sin_port), NULL, &ni) == PTL_OK);
    CHECK (PtlGetPhysId (ni, &id) == PTL_OK);
    CHECK (id.phys.pid == ntohs (at.sin_port));
    CHECK (PtlNIFini (ni) == PTL_OK);
}

static void check_environment (void)
{
    static const char *const wrong[][2] = {
        { "PTL_LISTEN", "nowhere" },
        { "PTL_LISTEN", "192.0.2.1" },
        { "PTL_KEY_FILE", "/nonexistent" },
        { "PTL_KEY_FILE", "/dev/null" },
        { "PTL_TRANSPORT", "pigeon" },
    };
    ptl_handle_ni_t ni;

    for (size_t i = 0; i < sizeof (wrong) / sizeof (*wrong); i++) {
        setenv (wrong[i][0], wrong[i][1], 1);
        errno = 0;
        CHECK (init (options[0], PTL_PID_ANY, NULL, &ni) == PTL_FAIL);
        CHECK (errno != 0);
        unsetenv (wrong[i][0]);
    }
}

static void check_map (ptl_handle_ni_t ni, bool is_logical)
{
    ptl_process_t map[3] = { { .phys = { 1, 2 } }, id, id }, got[3], rank;
    ptl_size_t size = 0;

    CHECK (PtlGetPhysId (ni, &rank) == PTL_OK && is_same (rank, id));
    CHECK (PtlGetId (ni, &rank) == PTL_OK);
    if (!is_logical) {
        CHECK (is_same (rank, id));
        CHECK (PtlSetMap (ni, 3, map) == PTL_ARG_INVALID);
        CHECK (PtlGetMap (ni, 3, got, &size) == PTL_ARG_INVALID);
        return;
    }
    CHECK (rank.rank == PTL_RANK_ANY);
    CHECK (PtlGetMap (ni, 3, got, &size) == PTL_NO_SPACE);
    CHECK (PtlSetMap (ni, 3, map) == PTL_OK);
    memset (map, 0, sizeof (map)); /* it was copied */
    CHECK (PtlGetId (ni, &rank) == PTL_OK && rank.rank == 1);
    CHECK (PtlGetMap (ni, 0, NULL, &size) == PTL_OK && size == 3);
    memset (got, 0, sizeof (got));
    CHECK (PtlGetMap (ni, 2, got, &size) == PTL_OK && size == 3);
    CHECK (got[0].phys.nid == 1 && is_same (got[1], id));
    CHECK (got[2].phys.nid == 0); /* there was no room */
    CHECK (PtlGetMap (ni, 3, got, NULL) == PTL_OK && is_same (got[2], id));
    CHECK (PtlSetMap (ni, 1, &id) == PTL_OK); /* another takes its place */
    CHECK (PtlGetId (ni, &rank) == PTL_OK && rank.rank == 0);
    CHECK (PtlGetMap (ni, 3, got, &size) == PTL_OK && size == 1);
}

static void open_side (int kind)
{
    ptl_ni_limits_t limits = { .max_eqs = 2 + kind };
    struct side *side = &sides[kind];
    ptl_md_t md = { .start = &side->data, .length = 8,
                    .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE };
    ptl_handle_ni_t again;
    ptl_handle_eq_t eq;

    CHECK (init (options[kind], PTL_PID_ANY, &limits, &side->ni) == PTL_OK);
    CHECK (init (options[kind], id.phys.pid, NULL, &again) == PTL_OK);
    CHECK (again == side->ni);
    CHECK (init (options[kind], id.phys.pid + 1, NULL, &again)
           == PTL_PID_IN_USE);
    CHECK (PtlEQAlloc (side->ni, 16, &side->eq) == PTL_OK);
    CHECK (PtlEQAlloc (side->ni, 16, &side->own) == PTL_OK);
    for (int i = 0; i < kind; i++)
        CHECK (PtlEQAlloc (side->ni, 1, &eq) == PTL_OK);
    CHECK (PtlEQAlloc (side->ni, 1, &eq) == PTL_NO_SPACE);
    CHECK (PtlPTAlloc (side->ni, 0, side->eq, 5, &side->index) == PTL_OK);
    md.eq_handle = side->own;
    CHECK (PtlMDBind (side->ni, &md, &side->md) == PTL_OK);
    check_map (side->ni, options[kind] & PTL_NI_LOGICAL);
}

/* An entry of the overflow list. */
static void open_entry_of (int kind)
{
    struct side *side = &sides[kind];
    ptl_me_t me = {
        .start = &side->memory,
        .length = 8,
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE,
        .ignore_bits = UINT64_MAX,
        .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY },
        .ct_handle = PTL_CT_NONE,
    };
    ptl_le_t le = {
        .start = &side->memory,
        .length = 8,
        .uid = PTL_UID_ANY,
        .options = PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE,
        .ct_handle = PTL_CT_NONE,
    };
    ptl_handle_any_t handle;

    if (options[kind] & PTL_NI_MATCHING)
        CHECK (PtlMEAppend (side->ni, 5, &me, PTL_OVERFLOW_LIST, side,
                            &handle)
               == PTL_OK);
    else
        CHECK (PtlLEAppend (side->ni, 5, &le, PTL_OVERFLOW_LIST, side,
                            &handle)
               == PTL_OK);
}

/* ---- traffic ---- */

static int dropped (int kind)
{
    ptl_sr_value_t value;

    CHECK (PtlNIStatus (sides[kind].ni, PTL_SR_DROP_COUNT, &value) == PTL_OK);
    return value;
}

static ptl_event_t put (int kind, uint64_t data, ptl_pt_index_t index)
{
    struct side *side = &sides[kind];
    ptl_process_t self;
    ptl_event_t event;

    side->data = data;
    CHECK (PtlGetId (side->ni, &self) == PTL_OK);
    CHECK (PtlPut (side->md, 0, 8, PTL_ACK_REQ, self, index, 0, 0, side, data)
           == PTL_OK);
    do
        CHECK (PtlEQWait (side->own, &event) == PTL_OK);
    while (event.type != PTL_EVENT_ACK);
    CHECK (event.user_ptr == side);
    return event;
}

static void check_put (int kind, uint64_t data)
{
    ptl_event_t event;

    CHECK (put (kind, data, 5).ni_fail_type == PTL_NI_OK);
    for (int other = 0; other < KINDS; other++) {
        int rc = PtlEQGet (sides[other].eq, &event);

        if (other != kind) {
            CHECK (rc == PTL_EQ_EMPTY || rc == PTL_ARG_INVALID);
            CHECK (sides[other].memory != data);
            continue;
        }
        CHECK (rc == PTL_OK && event.type == PTL_EVENT_PUT);
        CHECK (event.hdr_data == data && event.user_ptr == &sides[kind]);
        CHECK (sides[kind].memory == data);
    }
}

static void check_drop (int kind)
{
    int before[KINDS];

    for (int i = 0; i < KINDS; i++)
        before[i] = dropped (i);
    CHECK (put (kind, 1, 6).ni_fail_type == PTL_NI_DROPPED);
    for (int i = 0; i < KINDS; i++)
        CHECK (dropped (i) == before[i] + (i == kind));
}

static void check_handles (int kind)
{
    const struct side *side = &sides[kind];
    const ptl_handle_any_t handles[]
        = { side->ni, side->eq, side->own, side->md };
    ptl_handle_ni_t ni;

    for (size_t i = 0; i < sizeof (handles) / sizeof (*handles); i++) {
        CHECK (PtlNIHandle (handles[i], &ni) == PTL_OK);
        CHECK (PtlHandleIsEqual (ni, side->ni) && ni == side->ni);
    }
}

int main (void)
{
    ptl_handle_ni_t ni;
    ptl_process_t before;

    CHECK (PtlInit () == PTL_OK);
    check_environment ();
    check_pids ();
    CHECK (init (options[0], PTL_PID_ANY, NULL, &ni) == PTL_OK);
    CHECK (PtlGetPhysId (ni, &id) == PTL_OK);
    before = id;
    CHECK (PtlNIFini (ni) == PTL_OK);
    CHECK (init (options[2], before.phys.pid, NULL, &ni) == PTL_OK);
    CHECK (PtlGetPhysId (ni, &id) == PTL_OK && is_same (id, before));
    for (int kind = 0; kind < KINDS; kind++) {
        if (kind == 2) /* this one is made anew, while others live */
            CHECK (PtlNIFini (ni) == PTL_OK);
        open_side (kind);
        open_entry_of (kind);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        check_handles (kind);
        check_put (kind, 100 + (uint64_t)kind);
        check_drop (kind);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        CHECK (PtlNIFini (sides[kind].ni) == PTL_OK); /* one user is left */
        check_put (kind, 200 + (uint64_t)kind);
        CHECK (PtlNIFini (sides[kind].ni) == PTL_OK);
        CHECK (PtlNIFini (sides[kind].ni) == PTL_ARG_INVALID);
        for (int other = kind + 1; other < KINDS; other++)
            check_put (other, 300 + (uint64_t)(KINDS * kind + other));
    }
    PtlFini ();
    return 0;
}
