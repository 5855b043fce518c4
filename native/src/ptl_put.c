#include "ptl_put.h"

#include <string.h>

#include "ptl_ct.h"
#include "ptl_eq.h"
#include "ptl_md.h"
#include "ptl_end.h"
#include "ptl_ni.h"
#include "ptl_op.h"
#include "ptl_peer.h"

/* ---- puts from a memory descriptor ---- */

static void post (const struct ptl_op *op, uint32_t type, int fail,
                  uint64_t mlength, uint64_t offset)
{
    const struct ptl_md *md = op->md;
    struct ptlx_event event = {
        .type = type,
        .ni_fail = (uint32_t)fail,
        .nid = op->nid,
        .pid = op->pid,
        .user_ptr = op->user_ptr,
        .mlength = mlength,
        .remote_offset = offset,
    };

    if (!md->eq)
        return;
    if (fail == PTL_NI_OK
        && (md->md.options & PTL_MD_EVENT_SUCCESS_DISABLE))
        return;
    if (type == PTL_EVENT_SEND
        && (md->md.options & PTL_MD_EVENT_SEND_DISABLE))
        return;
    ptl_eq_post (md->eq, &event);
}

static void count (const struct ptl_op *op, unsigned option, int fail,
                   uint64_t bytes)
{
    const struct ptl_md *md = op->md;

    if (!md->ct || !(md->md.options & option))
        return;
    if (fail != PTL_NI_OK)
        ptl_ct_add (md->ct, 0, 1);
    else
        ptl_ct_add (md->ct,
                    md->md.options & PTL_MD_EVENT_CT_BYTES ? bytes : 1, 0);
}

static void put_sent (struct ptl_op *op)
{
    post (op, PTL_EVENT_SEND, PTL_NI_OK, op->length, op->offset);
    count (op, PTL_MD_EVENT_CT_SEND, PTL_NI_OK, op->length);
}

/* What fails before its last byte has left fails as SEND, else as ACK. */
static void put_ended (struct ptl_op *op, int fail, uint64_t mlength,
                       uint64_t offset)
{
    bool is_sent = op->state == PTL_OP_SENT || fail != PTL_NI_UNDELIVERABLE;

    if (!is_sent) {
        post (op, PTL_EVENT_SEND, fail, 0, 0);
        count (op, PTL_MD_EVENT_CT_SEND, fail, 0);
    }
    if (op->ack == PTL_ACK_REQ)
        post (op, PTL_EVENT_ACK, fail, mlength, offset);
    if (op->ack != PTL_NO_ACK_REQ)
        count (op, PTL_MD_EVENT_CT_ACK, fail, mlength);
}

static const struct ptl_op_class put_class = { put_sent, put_ended };

static bool is_valid (const struct ptl_md *md, const struct ptl_put_args *args)
{
    return args->local_offset <= md->md.length
        && args->length <= md->md.length - args->local_offset
        && (unsigned)args->ack <= PTL_OC_ACK_REQ
        && args->pt_index < PTL_PT_MOST && args->nid != 0
        && args->nid != PTL_NID_ANY && args->pid != 0
        && (args->ack != PTL_ACK_REQ || md->eq);
}

int ptl_put (struct ptl_md *md, const struct ptl_put_args *args,
             struct ptl_ct *trigger, uint64_t threshold)
{
    struct ptl_op *op;

    if (!is_valid (md, args))
        return PTL_ARG_INVALID;
    if (!(op = ptl_op_alloc (md->ni->end, &put_class, 0)))
        return PTL_NO_SPACE;
    op->ni = md->ni;
    op->md = md;
    md->users++;
    op->nid = args->nid;
    op->pid = args->pid;
    op->kind = md->ni->kind;
    op->lane = PTL_LANE_DATA;
    op->pt_index = (uint8_t)args->pt_index;
    op->ack = (uint8_t)args->ack;
    if (args->length > 0)
        op->data = (const uint8_t *)md->md.start + args->local_offset;
    op->length = args->length;
    op->match_bits = args->match_bits;
    op->offset = args->remote_offset;
    op->hdr_data = args->hdr_data;
    op->user_ptr = args->user_ptr;
    op->work.threshold = threshold;
    if (trigger)
        ptl_ct_trigger (trigger, &op->work);
    else
        ptl_op_start (op);
    return PTL_OK;
}

/* ---- messages ---- */

/* The ack frees the copy. A peer that takes no messages at all is none. */
static void message_ended (struct ptl_op *op, int fail, uint64_t mlength,
                           uint64_t offset)
{
    struct ptlx_event event = {
        .type = PTLX_EVENT_PEER_LOST,
        .nid = op->nid,
        .pid = op->pid,
        .reason = PTLX_LOSS_REFUSED,
        .detail = fail,
    };

    (void)offset;
    if (fail == PTL_NI_UNDELIVERABLE
        || (fail == PTL_NI_OK && mlength == op->length))
        return;
    ptl_end_notify (op->end, &event);
}

static const struct ptl_op_class message_class = { NULL, message_ended };

int ptl_put_message (struct ptl_end *end, uint32_t nid, uint32_t pid,
                     const void *data, size_t length)
{
    struct ptl_op *op;

    if (length > PTLX_MESSAGE_MAX_BYTES || nid == 0 || nid == PTL_NID_ANY
        || pid == 0 || (!data && length > 0))
        return PTL_ARG_INVALID;
    if (!(op = ptl_op_alloc (end, &message_class, length)))
        return PTL_NO_SPACE;
    if (length > 0)
        memcpy (op->copy, data, length);
    op->nid = nid;
    op->pid = pid;
    op->lane = PTL_LANE_CONTROL;
    op->flags = PTL_FLAG_RETRY;
    op->ack = PTL_ACK_REQ;
    op->data = op->copy;
    op->length = length;
    ptl_op_start (op);
    return PTL_OK;
}
