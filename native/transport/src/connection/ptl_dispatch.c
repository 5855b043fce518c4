#include "ptl_dispatch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ptl_alive.h"
#include "ptl_answer.h"
#include "ptl_lane.h"
#include "ptl_near.h"
#include "ptl_room.h"
#include "ptl_seal.h"
#include "ptl_serve.h"

static void misbehaved (struct ptl_conn *conn, int detail)
{
    ptl_conn_fail (conn, PTLX_LOSS_MISBEHAVED, detail);
}

/* The last byte of a put is here. */
static void finish (struct ptl_conn *conn, struct ptl_rx *rx)
{
    int fail = rx->fail;

    conn->end->above->finish (&conn->who, rx, fail);
    ptl_serve_ack (conn, rx, fail);
}

/* ---- puts ---- */

/* Was an earlier put to this entry refused, and not yet sent again (RESEND)? */
static bool is_out_of_turn (struct ptl_conn *conn, const struct ptl_frame *f)
{
    uint64_t bit;

    if (!(f->flags & PTL_FLAG_RETRY))
        return false;
    bit = UINT64_C (1) << f->pt_index;
    if (f->flags & PTL_FLAG_RESEND)
        conn->refused &= ~bit;
    return conn->refused & bit;
}

/* Refuse without side effects, like an entry that is disabled. */
static void refuse (const struct ptl_frame *f, struct ptl_rx *rx)
{
    memset (rx, 0, sizeof (*rx));
    rx->type = f->type;
    rx->op_index = f->op_index;
    rx->op_generation = f->op_generation;
    rx->length = f->total;
    rx->pt_index = f->pt_index;
    rx->ack = f->detail;
    rx->lane = f->lane;
    rx->fail = PTL_NI_PT_DISABLED;
}

static void begin (struct ptl_conn *conn, struct ptl_rx *rx)
{
    const struct ptl_frame *f = &conn->frame;

    if (is_out_of_turn (conn, f))
        refuse (f, rx);
    else
        conn->end->above->begin (conn->end, &conn->who, f, rx);
    if ((f->flags & PTL_FLAG_RETRY) && rx->fail == PTL_NI_PT_DISABLED)
        conn->refused |= UINT64_C (1) << f->pt_index;
}

static struct ptl_rx *free_slot (struct ptl_conn *conn)
{
    if (!conn->open
        && !(conn->open = calloc (PTL_OPEN_MAX, sizeof (*conn->open))))
        return NULL;
    for (int i = 0; i < PTL_OPEN_MAX; i++)
        if (!conn->open[i].is_open)
            return &conn->open[i];
    return NULL;
}

static struct ptl_rx *open_slot (struct ptl_conn *conn)
{
    const struct ptl_frame *f = &conn->frame;

    for (int i = 0; conn->open && i < PTL_OPEN_MAX; i++)
        if (conn->open[i].is_open
            && conn->open[i].op_index == f->op_index
            && conn->open[i].op_generation == f->op_generation)
            return &conn->open[i];
    return NULL;
}

/* Begin with the first fragment. False: not allowed here. */
static bool take_first (struct ptl_conn *conn)
{
    bool is_whole = conn->frame.flags & PTL_FLAG_LAST;

    if (is_whole)
        conn->rx = &conn->single;
    else if (open_slot (conn) || !(conn->rx = free_slot (conn)))
        return false;
    begin (conn, conn->rx);
    if (!is_whole)
        conn->rx->is_open = true;
    return true;
}

static bool take_next (struct ptl_conn *conn)
{
    const struct ptl_frame *f = &conn->frame;
    struct ptl_rx *rx = open_slot (conn);

    if (!rx || f->total != rx->length || f->fragment != rx->next_fragment
        || f->offset != rx->received)
        return false;
    conn->rx = rx;
    conn->end->above->go_on (rx, f->length);
    return true;
}

static void end_put (struct ptl_conn *conn)
{
    struct ptl_rx *rx = conn->rx;

    conn->rx = NULL;
    rx->next_fragment++;
    if (rx->received == rx->length)
        finish (conn, rx);
}

static void take_put (struct ptl_conn *conn)
{
    bool is_first = conn->frame.flags & PTL_FLAG_FIRST;

    if (!(is_first ? take_first (conn) : take_next (conn)))
        misbehaved (conn, EPROTO);
    else if (conn->payload_left == 0)
        end_put (conn);
}

/* ---- answers ---- */

static void take_ack (struct ptl_conn *conn)
{
    const struct ptl_frame *f = &conn->frame;
    struct ptl_op *op = ptl_lane_awaiting (conn->peer, f);
    int fail = f->detail;

    if (!op) {
        misbehaved (conn, EPROTO);
        return;
    }
    op->list = f->hdr_data & 1;
    if (fail == PTL_ACK_SILENT) {
        op->ack = PTL_NO_ACK_REQ;
        fail = PTL_NI_OK;
    }
    ptl_lane_answered (conn->peer, op, fail, f->total, f->offset);
}

static void end_reply (struct ptl_conn *conn)
{
    struct ptl_op *op = conn->reply;

    conn->reply = NULL;
    if (conn->frame.flags & PTL_FLAG_LAST)
        ptl_lane_answered (conn->peer, op, conn->frame.detail, op->position,
                           op->offset);
}

static void take_reply (struct ptl_conn *conn)
{
    const struct ptl_frame *f = &conn->frame;
    struct ptl_op *op = ptl_lane_awaiting (conn->peer, f);
    bool is_first = f->flags & PTL_FLAG_FIRST;

    if (!op || f->fragment != op->fragment
        || (!is_first
            && (f->total != op->total || f->offset != op->position))) {
        misbehaved (conn, EPROTO);
        return;
    }
    if (is_first) {
        op->total = f->total;
        op->offset = f->offset;
        op->list = f->hdr_data & 1;
    }
    op->fragment++;
    conn->reply = op;
    if (conn->payload_left == 0)
        end_reply (conn);
}

/* ---- gets and atomic operations ---- */

void ptl_dispatch_atomic (struct ptl_conn *conn, const uint8_t *payload)
{
    struct ptl_frame frame = conn->frame;

    ptl_serve_atomic (conn, &frame, payload);
}

/* ---- frames ---- */

static void take_pong (struct ptl_conn *conn)
{
    if (!conn->is_pinged) {
        misbehaved (conn, EPROTO);
        return;
    }
    ptl_alive_answered (conn);
    ptl_room_stay (conn);
}

/* Is the header authentic? With integrity only if its MAC is correct. */
static bool is_proven (struct ptl_conn *conn)
{
    struct ptl_seal *seal = conn->seal;

    if (conn->frame.is_sealed != (seal != NULL))
        return false;
    if (!seal)
        return true;
    if (!ptl_seal_check (seal, conn->header, PTL_HEADER_BYTES,
                         conn->header + PTL_HEADER_BYTES))
        return false;
    if (conn->frame.length > 0)
        ptl_seal_expect (seal);
    return true;
}

void ptl_dispatch_header (struct ptl_conn *conn)
{
    struct ptl_frame pong = { .type = PTL_FRAME_PONG };
    struct ptl_frame *f = &conn->frame;

    conn->end->counters.frames_in++;
    conn->end->budget_frames--;
    if (ptl_wire_decode (conn->header, f) != PTL_OK
        || f->incarnation != (uint32_t)conn->incarnation
        || !is_proven (conn)) {
        misbehaved (conn, EBADMSG);
        return;
    }
    conn->payload_left = f->length;
    if (f->type < PTL_FRAME_PING)
        ptl_room_moved (conn);
    switch (f->type) {
    case PTL_FRAME_PUT:
        take_put (conn);
        break;
    case PTL_FRAME_GET:
        ptl_serve_get (conn, f);
        break;
    case PTL_FRAME_ATOMIC:
    case PTL_FRAME_FETCH:
        if (f->length == 0)
            ptl_dispatch_atomic (conn, NULL);
        break;
    case PTL_FRAME_ACK:
        take_ack (conn);
        break;
    case PTL_FRAME_REPLY:
        take_reply (conn);
        break;
    case PTL_FRAME_PING:
        if (f->detail == PTL_PING_PART && ptl_room_grant (conn))
            break;
        ptl_answer_send (conn, &pong);
        break;
    case PTL_FRAME_PONG:
        take_pong (conn);
        break;
    case PTL_FRAME_MEMORY:
        if (!ptl_near_take (conn, &conn->frame))
            misbehaved (conn, EPROTO);
        break;
    default: /* BYE */
        if (conn->is_parting)
            ptl_room_parted (conn);
        else
            ptl_conn_fail (conn, PTLX_LOSS_CLOSED, 0);
    }
}

void ptl_dispatch_payload (struct ptl_conn *conn)
{
    if (conn->rx)
        end_put (conn);
    else
        end_reply (conn);
}
