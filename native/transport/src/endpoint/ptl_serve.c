#include "ptl_serve.h"

#include <errno.h>
#include <string.h>

#include "ptl_answer.h"
#include "ptl_atomic.h"
#include "ptl_conn.h"
#include "ptl_mem.h"
#include "ptl_op.h"
#include "ptl_peer.h"

#define ACK_AT_ONCE_BYTES (64 * 1024) /* larger ones keep much memory busy */

/* ---- answers ---- */

void ptl_serve_ack (struct ptl_conn *conn, const struct ptl_rx *rx, int fail)
{
    struct ptl_frame ack = {
        .type = PTL_FRAME_ACK,
        .lane = rx->lane,
        .pt_index = rx->pt_index,
        .detail = (uint8_t)fail,
        .op_index = rx->op_index,
        .op_generation = rx->op_generation,
        .total = rx->mlength,
        .offset = rx->offset,
        .hdr_data = rx->list,
    };

    if (rx->ack == PTL_NO_ACK_REQ)
        return;
    if (fail == PTL_NI_OK && rx->is_ack_disabled)
        ack.detail = PTL_ACK_SILENT;
    /* Programs that put through Portals, and sources of objects, wait for acks:
     * only those of messages are delayed. */
    if (rx->lane == PTL_LANE_CONTROL && fail == PTL_NI_OK
        && rx->mlength <= ACK_AT_ONCE_BYTES)
        ptl_answer_ack (conn, &ack);
    else
        ptl_answer_send (conn, &ack);
}

/* A reply of one frame; NULL: the connection has ended. */
static uint8_t *reply_small (struct ptl_conn *conn, const struct ptl_rx *rx)
{
    struct ptl_frame reply = {
        .type = PTL_FRAME_REPLY,
        .flags = PTL_FLAG_FIRST | PTL_FLAG_LAST,
        .lane = rx->lane,
        .pt_index = rx->pt_index,
        .detail = (uint8_t)rx->fail,
        .length = (uint32_t)rx->mlength,
        .op_index = rx->op_index,
        .op_generation = rx->op_generation,
        .total = rx->mlength,
        .offset = rx->offset,
        .hdr_data = rx->list,
    };

    return ptl_answer_reserve (conn, &reply);
}

/* What a reply of a GET keeps until it has been sent. */
struct owed {
    struct ptl_who who;
    struct ptl_rx rx;
};

static void owed_ended (struct ptl_op *op, int fail, uint64_t mlength,
                        uint64_t offset)
{
    struct owed *owed = (struct owed *)(void *)op->copy;

    (void)mlength;
    (void)offset;
    op->peer->n_owed--;
    op->end->above->finish (&owed->who, &owed->rx, fail);
}

static void copied_ended (struct ptl_op *op, int fail, uint64_t mlength,
                          uint64_t offset)
{
    (void)fail;
    (void)mlength;
    (void)offset;
    op->peer->n_owed--;
    op->peer->owed_bytes -= (uint32_t)op->length;
}

static const struct ptl_op_class owed_class = { NULL, owed_ended, NULL };
static const struct ptl_op_class copied_class = { NULL, copied_ended, NULL };

/* FRAMES.md limits the requests that an initiator may have under way. One that
 * has more is cut off, and so is one for whose reply there is no memory. */
static struct ptl_op *reply_large (struct ptl_conn *conn,
                                   const struct ptl_rx *rx,
                                   const struct ptl_op_class *class,
                                   size_t extra)
{
    struct ptl_peer *peer = conn->peer;
    struct ptl_op *op = NULL;

    if (peer->n_owed < 2 * PTL_UNACKED_MAX
        && peer->owed_bytes <= 2 * PTL_FETCHING_MAX)
        op = ptl_op_alloc (conn->end, class, extra);
    if (!op)
        return NULL;
    op->type = PTL_FRAME_REPLY;
    op->nid = peer->nid;
    op->pid = peer->pid;
    op->peer = peer;
    op->lane = rx->lane;
    op->pt_index = rx->pt_index;
    op->wire_index = rx->op_index;
    op->wire_generation = rx->op_generation;
    op->length = rx->mlength;
    op->offset = rx->offset;
    op->hdr_data = rx->list;
    op->state = PTL_OP_QUEUED;
    ptl_list_append (&peer->replies, &op->work.node);
    peer->n_owed++;
    ptl_conn_kick (conn);
    return op;
}

/* ---- gets ---- */

static void finish (struct ptl_conn *conn, struct ptl_rx *rx, int fail)
{
    conn->end->above->finish (&conn->who, rx, fail);
}

static void get_small (struct ptl_conn *conn, struct ptl_rx *rx)
{
    uint8_t *to = reply_small (conn, rx);

    if (to && rx->mlength > 0)
        ptl_mem_read (rx->mem, rx->offset, to, rx->mlength);
    finish (conn, rx, to ? rx->fail : PTL_NI_UNDELIVERABLE);
}

static void get_large (struct ptl_conn *conn, struct ptl_rx *rx)
{
    struct ptl_op *op
        = reply_large (conn, rx, &owed_class, sizeof (struct owed));
    struct owed *owed;

    if (!op) {
        finish (conn, rx, PTL_NI_UNDELIVERABLE);
        ptl_conn_fail (conn, PTLX_LOSS_MISBEHAVED, ENOBUFS);
        return;
    }
    ptl_op_set_data (op, rx->mem, rx->offset, rx->mlength);
    op->ni = rx->ni;
    owed = (struct owed *)(void *)op->copy;
    owed->who = conn->who;
    owed->rx = *rx;
}

void ptl_serve_get (struct ptl_conn *conn, const struct ptl_frame *frame)
{
    struct ptl_rx rx;

    conn->end->above->begin (conn->end, &conn->who, frame, &rx);
    if (rx.mlength <= PTL_REPLY_COPIED)
        get_small (conn, &rx);
    else
        get_large (conn, &rx);
}

/* ---- atomic operations ---- */

/* Apply to an element that two pieces of an I/O vector share. */
static void apply_cut (const struct ptl_rx *rx, uint64_t at,
                       const uint8_t *operand, const uint8_t *data,
                       size_t size)
{
    uint8_t element[PTL_ATOMIC_ELEMENT_MAX];

    ptl_mem_read (rx->mem, at, element, size);
    ptl_atomic_apply (rx->operation, rx->datatype, element, operand, data,
                      size);
    ptl_mem_write (rx->mem, at, element, size);
}

void ptl_serve_apply (const struct ptl_rx *rx, const uint8_t *operand,
                      const uint8_t *data)
{
    size_t size = ptl_atomic_size (rx->datatype);
    uint64_t whole = rx->mlength - rx->mlength % size, done = 0, n;

    while (done < whole) {
        uint8_t *to = ptl_mem_span (rx->mem, rx->offset + done, &n);

        n = n < whole - done ? n : whole - done;
        n -= n % size;
        if (n > 0)
            ptl_atomic_apply (rx->operation, rx->datatype, to, operand,
                              data + done, n);
        else
            apply_cut (rx, rx->offset + done, operand, data + done,
                       (n = size));
        done += n;
    }
}

/* Copy the old value into the reply. False: the connection has to end. */
static bool reply_old (struct ptl_conn *conn, const struct ptl_rx *rx)
{
    struct ptl_op *op;
    uint8_t *to;

    if (rx->mlength <= PTL_REPLY_COPIED) {
        to = reply_small (conn, rx);
    }
    else {
        op = reply_large (conn, rx, &copied_class, rx->mlength);
        to = op ? op->copy : NULL;
        if (op) {
            op->data = op->copy;
            conn->peer->owed_bytes += (uint32_t)rx->mlength;
        }
    }
    if (to && rx->mlength > 0)
        ptl_mem_read (rx->mem, rx->offset, to, rx->mlength);
    return to != NULL;
}

void ptl_serve_atomic (struct ptl_conn *conn, const struct ptl_frame *frame,
                       const uint8_t *payload)
{
    uint64_t operand = frame->length - frame->total;
    bool is_fetch = frame->type == PTL_FRAME_FETCH, is_told = true;
    struct ptl_rx rx;
    int fail;

    conn->end->above->begin (conn->end, &conn->who, frame, &rx);
    fail = rx.fail;
    if (is_fetch)
        is_told = reply_old (conn, &rx);
    if (rx.me && is_told)
        ptl_serve_apply (&rx, payload, payload + operand);
    finish (conn, &rx, is_told ? fail : PTL_NI_UNDELIVERABLE);
    if (!is_fetch)
        ptl_serve_ack (conn, &rx, fail);
    else if (!is_told)
        ptl_conn_fail (conn, PTLX_LOSS_MISBEHAVED, ENOBUFS);
}
