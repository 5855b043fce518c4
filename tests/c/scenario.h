/* scenario.h - everything the transport does, once, where anything may fail.
 *
 * Three ends: the first puts small and large, at once and by a trigger, sends
 * messages to a queue that is too short for them, and is the source of an
 * object that goes on from the second to the third. A call may say that there
 * is no space, or (`may_fail`) that the system refused; what was accepted
 * ends: each put by one SEND and one ACK, messages by their arrival or by the
 * loss of the peer, the object by one event at its source.
 *
 * The program that includes this says in `describe` what it made fail.
 */
#ifndef SCENARIO_H
#define SCENARIO_H

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

#define PLAYERS 3
#define LARGE_BYTES 700000u
#define OBJECT_BYTES 5000
#define OBJECT_CHUNK 1000
#define OBJECT_ID (UINT64_C (9) << 16 | 4)
#define MESSAGES 6
#define STUCK_MS 10000

struct player {
    bool is_open, is_armed;
    bool takes_messages; /* else they would be tried for ever */
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq, short_eq;
    ptl_handle_ct_t ct;
    ptl_handle_md_t md;
    ptl_process_t id;
    int fd;
    int puts, sent, acked; /* sent, acked: well or not */
    int messages, arrived;
    int lost, failed; /* peers; puts that ended badly */
    int object_arrived, object_sent, object_failed;
};

static bool messages_first;
static uint32_t patience_ms; /* of a dial; 0: the default */
static size_t large_bytes = LARGE_BYTES;
static bool may_fail; /* PTL_FAIL is an answer as well */
static void describe (void);

#define EXPECT(condition)                                               \
    do {                                                                \
        if (!(condition)) {                                             \
            describe ();                                                \
            CHECK (condition);                                          \
        }                                                               \
    } while (0)

/* Did it go well? Otherwise it has said why. */
static inline bool went_well (int rc)
{
    EXPECT (rc == PTL_OK || rc == PTL_NO_SPACE || (may_fail && rc == PTL_FAIL));
    return rc == PTL_OK;
}

static uint8_t scenario_source[LARGE_BYTES], scenario_target[LARGE_BYTES];

static inline bool player_open (struct player *p)
{
    struct ptlx_config config = {
        .listen_nid = LOOPBACK,
        .partition_key = test_key,
        .connect_timeout_ms = patience_ms,
    };
    ptl_md_t md = { .start = scenario_source, .length = LARGE_BYTES,
                    .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE };

    if (!(p->is_open = went_well (PtlxNIInit (&config, &p->ni))))
        return false;
    if (!went_well (PtlEQAlloc (p->ni, 64, &p->eq))
        || !went_well (PtlEQAlloc (p->ni, 2, &p->short_eq))
        || !went_well (PtlCTAlloc (p->ni, &p->ct)))
        return false;
    md.eq_handle = p->eq;
    md.ct_handle = p->ct;
    EXPECT (PtlxNotify (p->ni, p->eq) == PTL_OK);
    EXPECT (PtlGetPhysId (p->ni, &p->id) == PTL_OK);
    p->fd = memfd_create ("object", MFD_CLOEXEC);
    return p->fd >= 0 && posix_fallocate (p->fd, 0, OBJECT_BYTES) == 0
        && went_well (PtlMDBind (p->ni, &md, &p->md));
}

static inline void player_close (struct player *p)
{
    if (p->is_open)
        EXPECT (PtlxNIFini (p->ni, 20) == PTL_OK);
    if (p->fd >= 0)
        close (p->fd);
}

static inline bool append (struct player *p, ptl_pt_index_t index)
{
    ptl_me_t me = {
        .start = scenario_target,
        .length = LARGE_BYTES,
        .ct_handle = p->ct,
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM
            | PTL_ME_EVENT_LINK_DISABLE,
        .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY },
        .ignore_bits = UINT64_MAX,
    };
    ptl_handle_me_t handle;

    return went_well (PtlMEAppend (p->ni, index, &me, PTL_PRIORITY_LIST, NULL,
                                   &handle));
}

static inline void player_serve (struct player *p)
{
    ptl_pt_index_t index;

    p->takes_messages = went_well (PtlPTAlloc (p->ni, PTL_PT_FLOWCTRL,
                                               p->short_eq, 0, &index))
        && append (p, 0);
    if (went_well (PtlPTAlloc (p->ni, 0, p->eq, 2, &index)))
        (void)append (p, 2);
}

static inline void player_arm (struct player *p, const ptl_process_t *child,
                               int is_source)
{
    struct ptlx_object object = {
        .match_bits = OBJECT_ID,
        .job_id = 9,
        .size = OBJECT_BYTES,
        .chunk_bytes = OBJECT_CHUNK,
        .children = child,
        .n_children = child != NULL,
        .fd = p->fd,
        .is_source = is_source,
    };

    p->is_armed = went_well (PtlxForward (p->ni, &object));
}

static inline void player_put (struct player *p, const struct player *to,
                               size_t length, bool is_triggered)
{
    int rc = is_triggered
        ? PtlTriggeredPut (p->md, 0, length, PTL_ACK_REQ, to->id, 2, 0, 0,
                           NULL, 0, p->ct, 1000)
        : PtlPut (p->md, 0, length, PTL_ACK_REQ, to->id, 2, 0, 0, NULL, 0);

    p->puts += went_well (rc);
}

static inline void player_note (struct player *p,
                                const struct ptlx_event *event)
{
    switch (event->type) {
    case PTL_EVENT_SEND:
        p->sent++;
        p->failed += event->ni_fail != PTL_NI_OK;
        break;
    case PTL_EVENT_ACK:
        p->acked++;
        p->failed += event->ni_fail != PTL_NI_OK;
        break;
    case PTL_EVENT_PUT:
        p->arrived += event->pt_index == 0;
        break;
    case PTL_EVENT_PT_DISABLED:
        EXPECT (PtlPTEnable (p->ni, event->pt_index) == PTL_OK);
        break;
    case PTLX_EVENT_PEER_LOST:
        p->lost++;
        break;
    case PTLX_EVENT_OBJECT_ARRIVED:
        p->object_arrived++;
        break;
    case PTLX_EVENT_OBJECT_SENT:
        p->object_sent++;
        break;
    case PTLX_EVENT_OBJECT_FAILED:
        p->object_failed++;
        break;
    }
}

static inline void player_take (struct player *p)
{
    struct ptlx_event events[8];
    int count;

    EXPECT (PtlxEvents (p->ni, p->eq, events, 8, &count) == PTL_OK);
    for (int i = 0; i < count; i++)
        player_note (p, &events[i]);
    EXPECT (PtlxEvents (p->ni, p->short_eq, events, 2, &count) == PTL_OK);
    for (int i = 0; i < count; i++)
        player_note (p, &events[i]);
}

/* Has all that was accepted ended? */
static inline bool is_over (const struct player *p)
{
    return p[0].sent >= p[0].puts && p[0].acked >= p[0].puts
        && (p[1].arrived >= p[0].messages || p[0].lost > 0)
        && (!p[0].is_armed || p[0].object_sent + p[0].object_failed > 0);
}

/* Until then; false: it is stuck. */
static inline bool players_run (struct player *p)
{
    int64_t until = now_ms () + STUCK_MS;
    struct pollfd fds[PLAYERS];

    while (!is_over (p)) {
        for (int i = 0; i < PLAYERS; i++) {
            fds[i].events = POLLIN;
            EXPECT (PtlxFd (p[i].ni, &fds[i].fd) == PTL_OK);
        }
        if (now_ms () > until)
            return false;
        poll (fds, PLAYERS, 100);
        for (int i = 0; i < PLAYERS; i++)
            player_take (&p[i]);
    }
    return true;
}

static inline void players_talk (struct player *p)
{
    for (int i = 0; p[1].takes_messages && i < MESSAGES; i++)
        p[0].messages += went_well (
            PtlxSend (p[0].ni, LOOPBACK, p[1].id.phys.pid, "message", 7));
}

static inline void players_act (struct player *p)
{
    player_serve (&p[0]);
    player_serve (&p[1]);
    if (messages_first)
        players_talk (p);
    player_arm (&p[2], NULL, 0);
    player_arm (&p[1], &p[2].id, 0);
    player_arm (&p[0], &p[1].id, 1);
    player_put (&p[0], &p[1], 8, false);
    player_put (&p[0], &p[1], large_bytes, false);
    player_put (&p[0], &p[0], 8, false);
    player_put (&p[0], &p[1], 100, true);
    EXPECT (PtlCTInc (p[0].ct, (ptl_ct_event_t){ 1000, 0 }) == PTL_OK);
    if (!messages_first)
        players_talk (p);
}

/* The whole of it. False: what was accepted has not ended. */
static inline bool scenario (struct player *p)
{
    bool is_open = true, is_fine = true;

    memset (p, 0, PLAYERS * sizeof (*p));
    for (int i = 0; i < PLAYERS; i++)
        p[i].fd = -1;
    if (!went_well (PtlInit ()))
        return true;
    for (int i = 0; is_open && i < PLAYERS; i++)
        is_open = player_open (&p[i]);
    if (is_open) {
        players_act (p);
        is_fine = players_run (p);
    }
    for (int i = 0; i < PLAYERS; i++)
        player_close (&p[i]);
    PtlFini ();
    return is_fine;
}

/* Nothing failed, and nothing came twice. */
static inline void expect_all_well (const struct player *p)
{
    EXPECT (p[0].puts == 4 && p[0].sent == 4 && p[0].acked == 4);
    EXPECT (p[0].failed == 0 && p[0].lost == 0 && p[1].lost == 0);
    EXPECT (p[0].messages == MESSAGES && p[1].arrived == MESSAGES);
    EXPECT (p[0].object_sent == 1 && p[0].object_failed == 0);
}

#endif
