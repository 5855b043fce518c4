#include "ptl_lane.h"

#include <string.h>

#include "ptl_conn.h"
#include "ptl_op.h"
#include "ptl_peer.h"

#define HOLD_MOST_MS 50

/* ---- what to send next ---- */

static void frame_of (const struct ptl_op *op, struct ptl_frame *frame)
{
    uint64_t left = op->length - op->position;
    bool is_first = op->position == 0;

    memset (frame, 0, sizeof (*frame));
    frame->type = PTL_FRAME_PUT;
    frame->kind = op->kind;
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

bool ptl_lane_pick (struct ptl_peer *peer, struct ptl_frame *frame,
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

void ptl_lane_frame_sent (struct ptl_op *op, bool is_last)
{
    if (is_last)
        ptl_op_sent (op);
}

/* ---- acks ---- */

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
    ptl_end_wake_at (end, peer->hold_until_ms);
}

void ptl_lane_release (struct ptl_peer *peer)
{
    struct ptl_op *op;

    if (!peer->hold_until_ms || peer->n_retryable > 0)
        return;
    if (peer->end->now_ms < peer->hold_until_ms) {
        ptl_end_wake_at (peer->end, peer->hold_until_ms);
        return;
    }
    peer->hold_until_ms = 0;
    if ((op = first (&peer->retry)))
        op->flags |= PTL_FLAG_RESEND;
    ptl_list_splice (&peer->lanes[PTL_LANE_CONTROL], &peer->retry);
    if (peer->conn)
        ptl_conn_kick (peer->conn);
}

int ptl_lane_ack (struct ptl_peer *peer, const struct ptl_frame *frame)
{
    struct ptl_op *op
        = ptl_op_find (peer->end, frame->op_index, frame->op_generation);

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
        peer->hold_ms = PTL_HOLD_FIRST_MS;
        ptl_op_end (op, frame->detail, frame->total, frame->offset);
    }
    ptl_lane_release (peer);
    if (peer->conn)
        ptl_conn_kick (peer->conn);
    ptl_peer_drop_idle (peer);
    return PTL_OK;
}
