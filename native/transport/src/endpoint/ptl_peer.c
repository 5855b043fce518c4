#include "ptl_peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ptl_answer.h"
#include "ptl_auth.h"
#include "ptl_conn.h"
#include "ptl_lane.h"
#include "ptl_op.h"
#include "ptl_out.h"
#include "ptl_room.h"

#define DIAL_AGAIN_MS 20 /* after a collision: the other may vanish */
#define DIAL_PAUSE_MOST_MS 500 /* doubles each time that it is full */

/* ---- the table of records ---- */

static size_t slot_of (const struct ptl_end *end, uint32_t nid, uint32_t pid)
{
    uint64_t h = ((uint64_t)nid << 32 | pid) * UINT64_C (0x9e3779b97f4a7c15);

    return (size_t)(h >> 32) & (end->peer_slots - 1);
}

struct ptl_peer *ptl_peer_find (struct ptl_end *end, uint32_t nid, uint32_t pid)
{
    struct ptl_peer *peer;

    if (end->peer_slots == 0)
        return NULL;
    for (peer = end->peers[slot_of (end, nid, pid)]; peer; peer = peer->next)
        if (peer->nid == nid && peer->pid == pid)
            return peer;
    return NULL;
}

static bool grow (struct ptl_end *end)
{
    size_t slots = end->peer_slots ? end->peer_slots * 2 : 16;
    size_t old_slots = end->peer_slots;
    struct ptl_peer **old = end->peers, *peer;
    struct ptl_peer **peers = calloc (slots, sizeof (struct ptl_peer *));

    if (!peers)
        return false;
    end->peers = peers;
    end->peer_slots = slots;
    for (size_t i = 0; i < old_slots; i++) {
        while ((peer = old[i])) {
            size_t to = slot_of (end, peer->nid, peer->pid);

            old[i] = peer->next;
            peer->next = peers[to];
            peers[to] = peer;
        }
    }
    free (old);
    return true;
}

struct ptl_peer *ptl_peer_alloc (struct ptl_end *end, uint32_t nid,
                                 uint32_t pid)
{
    struct ptl_peer *peer;
    size_t slot;

    if (end->n_peers >= end->peer_slots && !grow (end))
        return NULL;
    if (!(peer = calloc (1, sizeof (*peer))))
        return NULL;
    peer->end = end;
    peer->nid = nid;
    peer->pid = pid;
    peer->hold_ms = PTL_HOLD_FIRST_MS;
    for (int i = 0; i < PTL_LANES; i++)
        ptl_list_init (&peer->lanes[i]);
    ptl_list_init (&peer->replies);
    ptl_list_init (&peer->open);
    ptl_list_init (&peer->sending);
    ptl_list_init (&peer->sent);
    ptl_list_init (&peer->retry);
    ptl_list_init (&peer->after);
    slot = slot_of (end, nid, pid);
    peer->next = end->peers[slot];
    end->peers[slot] = peer;
    end->n_peers++;
    return peer;
}

static void unlink_record (struct ptl_peer *peer)
{
    struct ptl_end *end = peer->end;
    struct ptl_peer **at = &end->peers[slot_of (end, peer->nid, peer->pid)];

    while (*at != peer)
        at = &(*at)->next;
    *at = peer->next;
    end->n_peers--;
    ptl_dues_remove (&end->peer_dues, &peer->due);
}

/* ---- dialling ---- */

static uint32_t loss_of (int error)
{
    return error == ENOKEY ? PTLX_LOSS_WRONG_KEY : PTLX_LOSS_UNREACHABLE;
}

static void dial_later (struct ptl_peer *peer, int pause_ms)
{
    peer->dial_again_ms = peer->end->now_ms + pause_ms;
    ptl_peer_due (peer, peer->dial_again_ms);
}

/* The backlog of a Unix socket is full, or no descriptor is free now. */
static bool is_passing (const struct ptl_peer *peer, int error)
{
    return error == EAGAIN
        || ((error == EMFILE || error == ENFILE)
            && ptl_room_make (peer->end));
}

static void dial (struct ptl_peer *peer)
{
    int error;

    peer->dial_again_ms = 0;
    error = ptl_room_is_crowded (peer->end) ? EAGAIN : ptl_conn_dial (peer);
    peer->dial_error = error;
    if (error == 0) {
        ptl_peer_due (peer, peer->dial_until_ms);
        ptl_conn_look (peer->dial); /* last: it may be lost by this */
    }
    else if (is_passing (peer, error))
        dial_later (peer, DIAL_AGAIN_MS);
    else
        ptl_peer_lost (peer, loss_of (error), error);
}

static void need_connection (struct ptl_peer *peer)
{
    if (peer->conn || peer->dial_until_ms)
        return;
    ptl_end_look_at_clock (peer->end);
    peer->dial_until_ms
        = peer->end->now_ms + peer->end->config.connect_timeout_ms;
    peer->dial_pause_ms = peer->dial_code = 0;
    dial (peer);
}

/* No memory for a record: the operation fails, and the peer is lost. */
static void lose_unknown (struct ptl_end *end, struct ptl_op *op)
{
    struct ptlx_event event = {
        .type = PTLX_EVENT_PEER_LOST,
        .nid = op->nid,
        .pid = op->pid,
        .reason = PTLX_LOSS_UNREACHABLE,
        .detail = ENOMEM,
    };

    end->above->lost (end, op->nid, op->pid, event.reason, event.detail, true);
    ptl_op_end (op, PTL_NI_UNDELIVERABLE, 0, 0);
    ptl_end_notify (end, &event);
}

void ptl_peer_queue (struct ptl_end *end, struct ptl_op *op, bool may_follow)
{
    struct ptl_peer *peer = ptl_peer_find (end, op->nid, op->pid);

    if (!ptl_list_empty (&end->losses)
        && ptl_end_is_mourned (end, op->nid, op->pid)) {
        ptl_op_end (op, PTL_NI_UNDELIVERABLE, 0, 0);
        return;
    }
    if (!peer && !(peer = ptl_peer_alloc (end, op->nid, op->pid))) {
        lose_unknown (end, op);
        return;
    }
    op->peer = peer;
    op->state = PTL_OP_QUEUED;
    if (peer->is_leaving) {
        ptl_list_append (&peer->after, &op->work.node);
        return;
    }
    if (!may_follow && peer->conn && ptl_out_write_alone (peer->conn, op))
        return;
    ptl_list_append (&peer->lanes[op->lane], &op->work.node);
    if (peer->conn)
        ptl_conn_kick (peer->conn);
    else
        need_connection (peer);
}

void ptl_peer_abandon_dial (struct ptl_peer *peer)
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
    if (!peer->conn)
        dial_later (peer, DIAL_AGAIN_MS);
}

void ptl_peer_turned_away (struct ptl_peer *peer, uint8_t code)
{
    struct ptl_conn *conn = peer->dial;
    int pause_ms = peer->dial_pause_ms;

    peer->dial = NULL;
    peer->dial_code = code;
    ptl_conn_close (conn);
    if (peer->conn)
        return;
    pause_ms = pause_ms ? 2 * pause_ms : DIAL_AGAIN_MS;
    peer->dial_pause_ms
        = pause_ms < DIAL_PAUSE_MOST_MS ? pause_ms : DIAL_PAUSE_MOST_MS;
    dial_later (peer, peer->dial_pause_ms);
}

static void tell_left (const struct ptl_peer *peer)
{
    struct ptlx_event event = {
        .type = PTLX_EVENT_PEER_LEFT,
        .nid = peer->nid,
        .pid = peer->pid,
        .serial = peer->conn->who.serial,
    };

    ptl_end_notify (peer->end, &event);
}

void ptl_peer_parted (struct ptl_peer *peer)
{
    tell_left (peer);
    peer->conn = NULL;
    if (ptl_peer_is_busy (peer)) {
        need_connection (peer);
        return;
    }
    peer->is_leaving = true;
    ptl_peer_drop_idle (peer);
}

/* ---- ends ---- */

static void end_all (struct ptl_node *list)
{
    struct ptl_node *node;

    while ((node = ptl_list_pop (list)))
        ptl_op_end (ptl_entry (node, struct ptl_op, work.node),
                    PTL_NI_UNDELIVERABLE, 0, 0);
}

bool ptl_peer_is_busy (const struct ptl_peer *peer)
{
    bool is_empty = ptl_list_empty (&peer->open)
        && ptl_list_empty (&peer->sending) && ptl_list_empty (&peer->sent)
        && ptl_list_empty (&peer->retry) && ptl_list_empty (&peer->replies)
        && (!peer->conn || !peer->conn->pending);

    for (int i = 0; i < PTL_LANES; i++)
        is_empty = is_empty && ptl_list_empty (&peer->lanes[i]);
    return !is_empty;
}

void ptl_peer_lost (struct ptl_peer *peer, uint32_t loss, int detail)
{
    struct ptl_end *end = peer->end;
    struct ptlx_event event = {
        .type = PTLX_EVENT_PEER_LOST,
        .nid = peer->nid,
        .pid = peer->pid,
        .reason = loss,
        .detail = detail,
    };

    end->above->lost (end, peer->nid, peer->pid, loss, detail,
                      ptl_peer_is_busy (peer));
    unlink_record (peer);
    if (peer->conn) {
        event.serial = peer->conn->who.serial;
        ptl_conn_close (peer->conn);
    }
    if (peer->dial)
        ptl_conn_close (peer->dial);
    end->above->disconnected (end, event.serial);
    end_all (&peer->sent);
    end_all (&peer->retry);
    end_all (&peer->after);
    end_all (&peer->open);
    end_all (&peer->sending);
    end_all (&peer->replies);
    for (int i = 0; i < PTL_LANES; i++)
        end_all (&peer->lanes[i]);
    ptl_end_notify (end, &event);
    free (peer);
}

void ptl_peer_drop_idle (struct ptl_peer *peer)
{
    struct ptl_conn *conn = peer->conn;
    struct ptl_node *node;

    if (!peer->is_leaving || ptl_peer_is_busy (peer))
        return;
    unlink_record (peer);
    if (peer->dial)
        ptl_conn_close (peer->dial);
    if (conn) {
        tell_left (peer);
        peer->end->above->disconnected (peer->end, conn->who.serial);
        ptl_conn_leave (conn);
    }
    while ((node = ptl_list_pop (&peer->after)))
        ptl_end_work (peer->end, ptl_entry (node, struct ptl_work, node));
    free (peer);
}

void ptl_peer_hurry (struct ptl_peer *peer)
{
    struct ptl_frame ping = { .type = PTL_FRAME_PING };
    struct ptl_conn *conn = peer->conn;

    if (!peer->is_leaving || conn->is_pinged
        || ptl_list_empty (&peer->sent))
        return;
    conn->is_pinged = true;
    ptl_answer_send (conn, &ping);
}

void ptl_peer_leave (struct ptl_peer *peer)
{
    peer->is_leaving = true;
    if (peer->conn)
        ptl_conn_kick (peer->conn); /* to hurry when all is out */
    ptl_peer_drop_idle (peer);
}

static void give_up (struct ptl_peer *peer)
{
    bool is_short = peer->dial_error == EMFILE || peer->dial_error == ENFILE;

    if (peer->dial_code) {
        ptl_peer_lost (peer, PTLX_LOSS_CROWDED,
                       peer->dial_code == PTL_CODE_SHARE
                           ? 1
                           : 2 * (peer->dial_code == PTL_CODE_CONNECTIONS));
        return;
    }
    if (is_short)
        ptl_room_complain ();
    ptl_peer_lost (peer, PTLX_LOSS_UNREACHABLE,
                   is_short ? peer->dial_error : ETIMEDOUT);
}

void ptl_peer_due (struct ptl_peer *peer, int64_t at_ms)
{
    struct ptl_end *end = peer->end;

    ptl_dues_put (&end->peer_dues, &peer->due, ptl_end_later (end, at_ms));
    ptl_end_wake_at (end, ptl_dues_next (&end->peer_dues));
}

void ptl_peer_tick (struct ptl_peer *peer)
{
    int64_t now = peer->end->now_ms;

    ptl_lane_release (peer);
    if (peer->conn || !peer->dial_until_ms)
        return;
    if (now >= peer->dial_until_ms) {
        give_up (peer);
        return;
    }
    ptl_peer_due (peer, peer->dial_until_ms);
    if (!peer->dial_again_ms)
        return;
    if (now >= peer->dial_again_ms || peer->end->has_freed)
        dial (peer);
    else
        ptl_peer_due (peer, peer->dial_again_ms);
}
