#include "ptl_peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ptl_conn.h"
#include "ptl_fwd.h"
#include "ptl_op.h"

#define HOLD_FIRST_MS 1
#define HOLD_MOST_MS 50
#define DIAL_AGAIN_MS 20 /* after a collision, should the other end vanish */

/* ---- the table of records ---- */

static size_t slot_of (const struct ptl_ni *ni, uint32_t nid, uint32_t pid)
{
    uint64_t h = ((uint64_t)nid << 32 | pid) * UINT64_C (0x9e3779b97f4a7c15);

    return (size_t)(h >> 32) & (ni->peer_slots - 1);
}

struct ptl_peer *ptl_peer_find (struct ptl_ni *ni, uint32_t nid, uint32_t pid)
{
    struct ptl_peer *peer;

    if (ni->peer_slots == 0)
        return NULL;
    for (peer = ni->peers[slot_of (ni, nid, pid)]; peer; peer = peer->next)
        if (peer->nid == nid && peer->pid == pid)
            return peer;
    return NULL;
}

static bool grow (struct ptl_ni *ni)
{
    size_t slots = ni->peer_slots ? ni->peer_slots * 2 : 16;
    size_t old_slots = ni->peer_slots;
    struct ptl_peer **old = ni->peers, *peer;
    struct ptl_peer **peers = calloc (slots, sizeof (struct ptl_peer *));

    if (!peers)
        return false;
    ni->peers = peers;
    ni->peer_slots = slots;
    for (size_t i = 0; i < old_slots; i++) {
        while ((peer = old[i])) {
            size_t to = slot_of (ni, peer->nid, peer->pid);

            old[i] = peer->next;
            peer->next = peers[to];
            peers[to] = peer;
        }
    }
    free (old);
    return true;
}

static struct ptl_peer *alloc (struct ptl_ni *ni, uint32_t nid, uint32_t pid)
{
    struct ptl_peer *peer;
    size_t slot;

    if (ni->n_peers >= ni->peer_slots && !grow (ni))
        return NULL;
    if (!(peer = calloc (1, sizeof (*peer))))
        return NULL;
    peer->ni = ni;
    peer->nid = nid;
    peer->pid = pid;
    peer->hold_ms = HOLD_FIRST_MS;
    for (int i = 0; i < PTL_LANES; i++)
        ptl_list_init (&peer->lanes[i]);
    ptl_list_init (&peer->open);
    ptl_list_init (&peer->sent);
    ptl_list_init (&peer->retry);
    slot = slot_of (ni, nid, pid);
    peer->next = ni->peers[slot];
    ni->peers[slot] = peer;
    ni->n_peers++;
    return peer;
}

static void unlink_record (struct ptl_peer *peer)
{
    struct ptl_ni *ni = peer->ni;
    struct ptl_peer **at = &ni->peers[slot_of (ni, peer->nid, peer->pid)];

    while (*at != peer)
        at = &(*at)->next;
    *at = peer->next;
    ni->n_peers--;
}

/* ---- dialling ---- */

static uint32_t loss_of (int error)
{
    return error == ENOKEY ? PTLX_LOSS_WRONG_KEY : PTLX_LOSS_UNREACHABLE;
}

static void dial (struct ptl_peer *peer)
{
    int error;

    peer->dial_again_ms = 0;
    if ((error = ptl_conn_dial (peer)) == 0)
        ptl_ni_wake_at (peer->ni, peer->dial_until_ms);
    else if (error == EAGAIN) { /* a full backlog of a Unix socket */
        peer->dial_again_ms = peer->ni->now_ms + DIAL_AGAIN_MS;
        ptl_ni_wake_at (peer->ni, peer->dial_again_ms);
    }
    else
        ptl_peer_lost (peer, loss_of (error), error);
}

static void need_connection (struct ptl_peer *peer)
{
    if (peer->conn || peer->dial_until_ms)
        return;
    peer->dial_until_ms
        = peer->ni->now_ms + peer->ni->config.connect_timeout_ms;
    dial (peer);
}

void ptl_peer_queue (struct ptl_ni *ni, struct ptl_op *op)
{
    struct ptl_peer *peer = ptl_peer_find (ni, op->nid, op->pid);

    if (!peer && !(peer = alloc (ni, op->nid, op->pid))) {
        ptl_op_end (op, PTL_NI_UNDELIVERABLE, 0, 0);
        return;
    }
    op->peer = peer;
    op->state = PTL_OP_QUEUED;
    ptl_list_append (&peer->lanes[op->lane], &op->work.node);
    if (peer->conn)
        ptl_conn_kick (peer->conn);
    else
        need_connection (peer);
}

/* End a dial without a word about it. */
static void abandon_dial (struct ptl_peer *peer)
{
    struct ptl_conn *conn = peer->dial;

    peer->dial = NULL;
    peer->dial_until_ms = peer->dial_again_ms = 0;
    if (conn)
        ptl_conn_close (conn);
}

void ptl_peer_connected (struct ptl_peer *peer)
{
    struct ptl_conn *conn;

    if (peer->dial) {
        peer->conn = peer->dial;
        peer->dial = NULL;
    }
    peer->dial_until_ms = peer->dial_again_ms = 0;
    conn = peer->conn;
    conn->peer = peer;
    ptl_conn_kick (conn);
}

void ptl_peer_collided (struct ptl_peer *peer)
{
    struct ptl_conn *conn = peer->dial;

    peer->dial = NULL;
    ptl_conn_close (conn);
    if (peer->conn)
        return;
    peer->dial_again_ms = peer->ni->now_ms + DIAL_AGAIN_MS;
    ptl_ni_wake_at (peer->ni, peer->dial_again_ms);
}

/* ---- admission of inbound connections ---- */

static bool is_lower (const struct ptl_ni *ni, uint32_t nid, uint32_t pid)
{
    return ni->self.nid != nid ? ni->self.nid < nid : ni->self.pid < pid;
}

static bool same_principal (const struct ptl_who *a, const struct ptl_who *b)
{
    return a->kind == b->kind && a->uid == b->uid && a->job_id == b->job_id;
}

/* May it be known by the id that it names? A listening id only by who shares
 * our own key: else a user could take the messages meant for a daemon. */
static bool is_believed (struct ptl_conn *conn, uint32_t nid, uint32_t pid)
{
    const struct ptlx_key *own = &conn->ni->default_key;
    const struct ptl_peer *peer = ptl_peer_find (conn->ni, nid, pid);

    if (nid == conn->ni->self.nid && pid == conn->ni->self.pid)
        return false;
    if (conn->who.kind == PTLX_KEY_PARTITION)
        return true;
    if (conn->who.kind == PTLX_KEY_JOB && own->kind == PTLX_KEY_JOB
        && own->job_id == conn->who.job_id)
        return true;
    if (pid < 1u << 16 || nid < 1u << 24)
        return false;
    return !peer
        || (peer->conn && same_principal (&peer->conn->who, &conn->who));
}

static uint32_t fresh_pid (struct ptl_ni *ni, uint32_t nid)
{
    uint32_t pid;

    do {
        ni->seed = ni->seed * 1664525u + 1013904223u;
        pid = ni->seed | 1u << 16;
    } while (pid == PTL_PID_ANY || ptl_peer_find (ni, nid, pid));
    return pid;
}

/* Everything that arrived on the old connection comes before its end. */
static void replace (struct ptl_peer *peer, uint64_t incarnation)
{
    struct ptl_conn *old = peer->conn;
    uint32_t loss = old->incarnation == incarnation ? PTLX_LOSS_DIED
                                                    : PTLX_LOSS_RESTARTED;

    ptl_conn_read_all (old);
    if (old->state == PTL_CONN_READY)
        ptl_conn_fail (old, loss, 0);
}

/* The old connection was opened by us and ours survives a crossing: probe it.
 * If it is half-open the other's kernel resets it, and its next try gets in. */
static bool is_crossing (struct ptl_peer *peer, uint64_t incarnation)
{
    struct ptl_frame ping = { .type = PTL_FRAME_PING };

    if (peer->conn->incarnation != incarnation || !peer->conn->is_dialled
        || !is_lower (peer->ni, peer->nid, peer->pid))
        return false;
    if (!peer->conn->is_pinged) {
        peer->conn->is_pinged = true;
        ptl_conn_small (peer->conn, &ping);
    }
    return true;
}

enum ptl_code ptl_peer_admit (struct ptl_conn *conn, uint32_t nid,
                              uint32_t pid)
{
    struct ptl_ni *ni = conn->ni;
    struct ptl_peer *peer;

    if (!is_believed (conn, nid, pid))
        pid = fresh_pid (ni, nid);
    peer = ptl_peer_find (ni, nid, pid);
    if (peer && peer->conn) {
        if (is_crossing (peer, conn->incarnation))
            return PTL_CODE_COLLISION;
        replace (peer, conn->incarnation);
        peer = ptl_peer_find (ni, nid, pid);
    }
    if (peer && peer->dial && is_lower (ni, nid, pid))
        return PTL_CODE_COLLISION;
    if (!peer && !(peer = alloc (ni, nid, pid)))
        return PTL_CODE_FULL;
    abandon_dial (peer);
    conn->who.nid = nid;
    conn->who.pid = pid;
    conn->peer = peer;
    peer->conn = conn;
    return PTL_CODE_READY;
}

/* ---- what to send next ---- */

static void frame_of (const struct ptl_op *op, struct ptl_frame *frame)
{
    uint64_t left = op->length - op->position;
    bool is_first = op->position == 0;

    memset (frame, 0, sizeof (*frame));
    frame->type = PTL_FRAME_PUT;
    frame->lane = op->lane;
    frame->pt_index = op->pt_index;
    frame->detail = op->ack;
    frame->length = left < PTL_PAYLOAD_MAX ? (uint32_t)left : PTL_PAYLOAD_MAX;
    frame->flags = op->flags;
    if (is_first)
        frame->flags |= PTL_FLAG_FIRST;
    if (frame->length == left)
        frame->flags |= PTL_FLAG_LAST;
    frame->op_index = op->index;
    frame->op_generation = op->generation;
    frame->fragment = op->fragment;
    frame->total = op->length;
    frame->match_bits = op->match_bits;
    frame->offset = is_first ? op->offset : op->position;
    frame->hdr_data = op->hdr_data;
}

/* Give the next frame of an operation to the socket. */
static void take (struct ptl_peer *peer, struct ptl_op *op,
                  struct ptl_frame *frame, const uint8_t **payload)
{
    bool was_open = op->position > 0;

    frame_of (op, frame);
    *payload = op->data ? op->data + op->position : NULL;
    op->position += frame->length;
    op->fragment++;
    ptl_list_remove (&op->work.node);
    op->state = PTL_OP_SENDING;
    if (!was_open && op->ack != PTL_NO_ACK_REQ) {
        peer->unacked++;
        if (op->flags & PTL_FLAG_RETRY)
            peer->n_retryable++;
    }
    if (frame->flags & PTL_FLAG_LAST) {
        peer->n_open -= was_open;
        return;
    }
    peer->n_open += !was_open;
    ptl_list_append (&peer->open, &op->work.node);
}

static struct ptl_op *first (const struct ptl_node *list)
{
    if (ptl_list_empty (list))
        return NULL;
    return ptl_entry (list->next, struct ptl_op, work.node);
}

/* An operation that may begin now: window, open operations, and in the bulk
 * lane nothing before the one before it has been sent. */
static struct ptl_op *beginner (struct ptl_peer *peer, int lane)
{
    struct ptl_op *op = first (&peer->lanes[lane]);

    if (!op || peer->unacked >= PTL_UNACKED_MAX)
        return NULL;
    if (op->length <= PTL_PAYLOAD_MAX && lane != PTL_LANE_BULK)
        return op;
    if (peer->n_open >= PTL_OPEN_MAX)
        return NULL;
    for (struct ptl_node *n = peer->open.next;
         lane == PTL_LANE_BULK && n != &peer->open; n = n->next)
        if (ptl_entry (n, struct ptl_op, work.node)->lane == lane)
            return NULL;
    return op;
}

bool ptl_peer_pick (struct ptl_peer *peer, struct ptl_frame *frame,
                    struct ptl_op **opp, const uint8_t **payload)
{
    struct ptl_op *op = NULL;

    if (!peer->hold_until_ms)
        op = beginner (peer, PTL_LANE_CONTROL);
    if (!op) {
        struct ptl_op *next = first (&peer->open);

        if (!peer->fragments_turn || !next) {
            op = beginner (peer, PTL_LANE_DATA);
            op = op ? op : beginner (peer, PTL_LANE_BULK);
        }
        peer->fragments_turn = op != NULL;
        op = op ? op : next;
    }
    if (!op)
        return false;
    take (peer, op, frame, payload);
    *opp = op;
    return true;
}

void ptl_peer_frame_sent (struct ptl_op *op, bool is_last)
{
    if (is_last)
        ptl_op_sent (op);
}

/* ---- acks ---- */

static void hold (struct ptl_peer *peer, struct ptl_op *op)
{
    struct ptl_ni *ni = peer->ni;

    ptl_list_remove (&op->work.node);
    op->state = PTL_OP_QUEUED;
    op->position = 0;
    op->fragment = 0;
    op->flags = PTL_FLAG_RETRY;
    ptl_list_append (&peer->retry, &op->work.node);
    ni->counters.resent++;
    if (peer->hold_until_ms)
        return;
    peer->hold_until_ms = ni->now_ms + peer->hold_ms;
    peer->hold_ms = peer->hold_ms * 2 < HOLD_MOST_MS ? peer->hold_ms * 2
                                                     : HOLD_MOST_MS;
    ptl_ni_wake_at (ni, peer->hold_until_ms);
}

/* All that was under way has been answered and the pause is over. */
static void release (struct ptl_peer *peer)
{
    struct ptl_op *op;

    if (!peer->hold_until_ms || peer->n_retryable > 0)
        return;
    if (peer->ni->now_ms < peer->hold_until_ms) {
        ptl_ni_wake_at (peer->ni, peer->hold_until_ms);
        return;
    }
    peer->hold_until_ms = 0;
    if ((op = first (&peer->retry)))
        op->flags |= PTL_FLAG_RESEND;
    ptl_list_splice (&peer->lanes[PTL_LANE_CONTROL], &peer->retry);
    if (peer->conn)
        ptl_conn_kick (peer->conn);
}

int ptl_peer_ack (struct ptl_peer *peer, const struct ptl_frame *frame)
{
    struct ptl_op *op
        = ptl_op_find (peer->ni, frame->op_index, frame->op_generation);

    if (!op || op->peer != peer || op->state != PTL_OP_SENT
        || frame->total > op->length)
        return PTL_FAIL;
    peer->unacked--;
    if (op->flags & PTL_FLAG_RETRY)
        peer->n_retryable--;
    if (frame->detail == PTL_NI_PT_DISABLED && (op->flags & PTL_FLAG_RETRY)) {
        hold (peer, op);
    }
    else {
        peer->hold_ms = HOLD_FIRST_MS;
        ptl_op_end (op, frame->detail, frame->total, frame->offset);
    }
    release (peer);
    if (peer->conn)
        ptl_conn_kick (peer->conn);
    ptl_peer_drop_idle (peer);
    return PTL_OK;
}

/* ---- ends ---- */

static void end_all (struct ptl_node *list)
{
    struct ptl_node *node;

    while ((node = ptl_list_pop (list)))
        ptl_op_end (ptl_entry (node, struct ptl_op, work.node),
                    PTL_NI_UNDELIVERABLE, 0, 0);
}

/* Operations whose frames were picked and are in no list of ours. */
static void reclaim_picked (struct ptl_peer *peer, struct ptl_conn *conn)
{
    for (unsigned i = conn->next_pending; i < conn->n_pending; i++)
        if (conn->pending[i].is_last)
            ptl_list_append (&peer->open, &conn->pending[i].op->work.node);
}

void ptl_peer_lost (struct ptl_peer *peer, uint32_t loss, int detail)
{
    struct ptl_ni *ni = peer->ni;
    struct ptlx_event event = {
        .type = PTLX_EVENT_PEER_LOST,
        .nid = peer->nid,
        .pid = peer->pid,
        .reason = loss,
        .detail = detail,
    };

    unlink_record (peer);
    if (peer->conn) {
        event.serial = peer->conn->who.serial;
        reclaim_picked (peer, peer->conn);
        ptl_conn_close (peer->conn);
    }
    if (peer->dial)
        ptl_conn_close (peer->dial);
    ptl_fwd_peer_lost (ni, event.serial);
    end_all (&peer->sent);
    end_all (&peer->retry);
    end_all (&peer->open);
    for (int i = 0; i < PTL_LANES; i++)
        end_all (&peer->lanes[i]);
    ptl_ni_notify (ni, &event);
    free (peer);
}

static bool is_busy (const struct ptl_peer *peer)
{
    bool is_empty = ptl_list_empty (&peer->open)
        && ptl_list_empty (&peer->sent) && ptl_list_empty (&peer->retry)
        && (!peer->conn || peer->conn->n_pending == 0);

    for (int i = 0; i < PTL_LANES; i++)
        is_empty = is_empty && ptl_list_empty (&peer->lanes[i]);
    return !is_empty;
}

void ptl_peer_drop_idle (struct ptl_peer *peer)
{
    struct ptl_conn *conn = peer->conn;

    if (!peer->is_leaving || is_busy (peer))
        return;
    unlink_record (peer);
    if (peer->dial)
        ptl_conn_close (peer->dial);
    if (conn) {
        ptl_fwd_peer_lost (peer->ni, conn->who.serial);
        ptl_conn_leave (conn);
    }
    free (peer);
}

void ptl_peer_leave (struct ptl_peer *peer)
{
    peer->is_leaving = true;
    ptl_peer_drop_idle (peer);
}

void ptl_peer_tick (struct ptl_peer *peer)
{
    int64_t now = peer->ni->now_ms;

    release (peer);
    if (peer->conn || !peer->dial_until_ms)
        return;
    if (now >= peer->dial_until_ms) {
        ptl_peer_lost (peer, PTLX_LOSS_UNREACHABLE, ETIMEDOUT);
        return;
    }
    ptl_ni_wake_at (peer->ni, peer->dial_until_ms);
    if (!peer->dial_again_ms)
        return;
    if (now >= peer->dial_again_ms)
        dial (peer);
    else
        ptl_ni_wake_at (peer->ni, peer->dial_again_ms);
}
