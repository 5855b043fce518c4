#include "ptl_lane.h"

#include <string.h>

#include "ptl_conn.h"
#include "ptl_op.h"
#include "ptl_peer.h"

#define HOLD_MOST_MS 50

/* ---- what to send next ---- */

static struct ptl_op *first (const struct ptl_node *list)
{
    if (ptl_list_empty (list))
        return NULL;
    return ptl_entry (list->next, struct ptl_op, work.node);
}

static bool is_open_in (const struct ptl_peer *peer, int lane)
{
    for (struct ptl_node *n = peer->open.next; n != &peer->open; n = n->next)
        if (ptl_entry (n, struct ptl_op, work.node)->lane == lane)
            return true;
    return false;
}

/* The next operation that may begin: the window has room, few enough are open,
 * and in the bulk lane the one before it has been sent. */
static struct ptl_op *beginner (const struct ptl_peer *peer, int lane)
{
    struct ptl_op *op = first (&peer->lanes[lane]);

    if (!op || peer->unacked >= PTL_UNACKED_MAX)
        return NULL;
    if (op->type == PTL_FRAME_FETCH && peer->fetching > 0
        && peer->fetching + op->length > PTL_FETCHING_MAX)
        return NULL;
    if (op->type == PTL_FRAME_GET
        || (op->length <= PTL_PAYLOAD_MAX && lane != PTL_LANE_BULK))
        return op;
    if (peer->n_open >= PTL_OPEN_MAX
        || (lane == PTL_LANE_BULK && is_open_in (peer, lane)))
        return NULL;
    return op;
}

/* The most payload of one frame. The memory of a reply may change between the
 * MAC and the write: with MACs no more than is copied. */
static uint32_t most_of (const struct ptl_peer *peer, const struct ptl_op *op)
{
    bool is_copied = op->type == PTL_FRAME_REPLY && peer->conn->seal;

    return is_copied ? PTL_SEALED_REPLY_MOST : PTL_PAYLOAD_MAX;
}

/* Replies count in the window of the peer that asked, not in ours. */
static struct ptl_op *reply (const struct ptl_peer *peer)
{
    struct ptl_op *op = first (&peer->replies);

    if (op && op->length > most_of (peer, op) && peer->n_open >= PTL_OPEN_MAX)
        return NULL;
    return op;
}

static struct ptl_op *next_beginner (struct ptl_peer *peer)
{
    struct ptl_op *op = NULL;

    if (peer->replies_turn)
        op = reply (peer);
    if (!op)
        op = beginner (peer, PTL_LANE_DATA);
    if (!op)
        op = reply (peer);
    if (op) {
        peer->replies_turn = op->type != PTL_FRAME_REPLY;
        return op;
    }
    return beginner (peer, PTL_LANE_BULK);
}

struct ptl_op *ptl_lane_pick (struct ptl_peer *peer)
{
    struct ptl_op *op = NULL, *open;

    if (peer->conn->is_parting)
        return NULL;
    if (!peer->hold_until_ms
        && (op = beginner (peer, PTL_LANE_CONTROL)) != NULL)
        return op;
    open = first (&peer->open);
    if (!peer->fragments_turn || !open)
        op = next_beginner (peer);
    peer->fragments_turn = op != NULL;
    return op ? op : open;
}

bool ptl_lane_is_free (const struct ptl_peer *peer, const struct ptl_op *op)
{
    return op->lane == PTL_LANE_DATA && op->type != PTL_FRAME_FETCH
        && peer->unacked < PTL_UNACKED_MAX && ptl_list_empty (&peer->open)
        && ptl_list_empty (&peer->replies)
        && ptl_list_empty (&peer->lanes[PTL_LANE_CONTROL])
        && ptl_list_empty (&peer->lanes[PTL_LANE_DATA]);
}

static void begin (struct ptl_peer *peer, const struct ptl_op *op)
{
    if (op->type == PTL_FRAME_REPLY || !ptl_op_is_answered (op))
        return;
    peer->unacked++;
    if (op->flags & PTL_FLAG_RETRY)
        peer->n_retryable++;
    if (op->type == PTL_FRAME_FETCH)
        peer->fetching += (uint32_t)op->length;
}

static inline void frame_of (const struct ptl_op *op, uint32_t length,
                             bool is_last, struct ptl_frame *frame)
{
    bool is_first = op->position == 0 && op->fragment == 0;

    frame->type = op->type;
    frame->kind = op->kind;
    frame->lane = op->lane;
    frame->pt_index = op->pt_index;
    frame->detail = op->ack;
    frame->operation = op->operation;
    frame->datatype = op->datatype;
    frame->length = length + op->operand_bytes;
    frame->flags = (uint16_t)(op->flags | (is_first ? PTL_FLAG_FIRST : 0)
                              | (is_last ? PTL_FLAG_LAST : 0));
    frame->incarnation = (uint32_t)op->end->incarnation;
    frame->op_index = op->wire_index;
    frame->op_generation = op->wire_generation;
    frame->fragment = op->fragment;
    frame->total = op->length;
    frame->match_bits = op->match_bits;
    frame->offset = is_first ? op->offset : op->position;
    frame->hdr_data = op->hdr_data;
}

void ptl_lane_take (struct ptl_peer *peer, struct ptl_op *op,
                    struct ptl_frame *frame, uint64_t *position)
{
    uint64_t left = op->length - op->position;
    bool was_open = op->position > 0, is_last = true;
    uint32_t length = 0, most = most_of (peer, op);

    if (op->type != PTL_FRAME_GET) {
        is_last = left <= most;
        length = is_last ? (uint32_t)left : most;
    }
    frame_of (op, length, is_last, frame);
    if (!was_open)
        begin (peer, op);
    *position = op->position;
    op->position += length;
    op->fragment++;
    op->state = PTL_OP_SENDING;
    peer->n_open += !is_last;
    peer->n_open -= was_open;
    ptl_list_remove (&op->work.node);
    ptl_list_append (is_last ? &peer->sending : &peer->open,
                     &op->work.node);
}

/* ---- answers ---- */

static void hold (struct ptl_peer *peer, struct ptl_op *op)
{
    struct ptl_end *end = peer->end;

    ptl_list_remove (&op->work.node);
    op->state = PTL_OP_QUEUED;
    op->position = 0;
    op->fragment = 0;
    op->flags = PTL_FLAG_RETRY;
    ptl_list_append (&peer->retry, &op->work.node);
    end->counters.resent++;
    if (peer->hold_until_ms)
        return;
    peer->hold_until_ms = end->now_ms + peer->hold_ms;
    peer->hold_ms = peer->hold_ms * 2 < HOLD_MOST_MS ? peer->hold_ms * 2
                                                     : HOLD_MOST_MS;
    ptl_peer_due (peer, peer->hold_until_ms);
}

void ptl_lane_release (struct ptl_peer *peer)
{
    struct ptl_op *op;

    if (!peer->hold_until_ms || peer->n_retryable > 0)
        return;
    if (peer->end->now_ms < peer->hold_until_ms) {
        ptl_peer_due (peer, peer->hold_until_ms);
        return;
    }
    peer->hold_until_ms = 0;
    if ((op = first (&peer->retry)))
        op->flags |= PTL_FLAG_RESEND;
    ptl_list_splice (&peer->lanes[PTL_LANE_CONTROL], &peer->retry);
    if (peer->conn)
        ptl_conn_kick (peer->conn);
}

struct ptl_op *ptl_lane_awaiting (struct ptl_peer *peer,
                                  const struct ptl_frame *frame)
{
    struct ptl_op *op
        = ptl_op_find (peer->end, frame->op_index, frame->op_generation);
    bool is_reply = frame->type == PTL_FRAME_REPLY;

    if (!op || op->peer != peer || op->state != PTL_OP_SENT
        || frame->total > op->length
        || is_reply == (op->ack != PTL_NO_ACK_REQ))
        return NULL;
    return op;
}

static bool has_queued (const struct ptl_peer *peer)
{
    for (int i = 0; i < PTL_LANES; i++)
        if (!ptl_list_empty (&peer->lanes[i]))
            return true;
    return false;
}

void ptl_lane_answered (struct ptl_peer *peer, struct ptl_op *op, int fail,
                        uint64_t mlength, uint64_t offset)
{
    bool is_retry = op->flags & PTL_FLAG_RETRY;

    peer->unacked--;
    if (op->type == PTL_FRAME_FETCH)
        peer->fetching -= (uint32_t)op->length;
    if (is_retry)
        peer->n_retryable--;
    if (fail == PTL_NI_PT_DISABLED && is_retry) {
        hold (peer, op);
    }
    else {
        peer->hold_ms = PTL_HOLD_FIRST_MS;
        ptl_op_end (op, fail, mlength, offset);
    }
    ptl_lane_release (peer);
    if (peer->conn && has_queued (peer)) /* the window has moved */
        ptl_conn_kick (peer->conn);
    ptl_peer_drop_idle (peer);
}
