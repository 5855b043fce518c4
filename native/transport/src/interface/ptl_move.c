#include "ptl_move.h"

#include <string.h>

#include "ptl_atomic.h"
#include "ptl_ct.h"
#include "ptl_end.h"
#include "ptl_eq.h"
#include "ptl_map.h"
#include "ptl_md.h"
#include "ptl_ni.h"
#include "ptl_op.h"
#include "ptl_peer.h"
#include "ptl_share.h"

#define LOCAL_NIDS (1u << 24) /* below: entries of the address table */

/* ---- what a descriptor hears ---- */

static void post (const struct ptl_op *op, const struct ptl_md *md,
                  uint32_t type, int fail, uint64_t mlength, uint64_t offset)
{
    struct ptlx_event event;

    if (!md->eq
        || (fail == PTL_NI_OK
            && (md->md.options & PTL_MD_EVENT_SUCCESS_DISABLE))
        || (type == PTL_EVENT_SEND
            && (md->md.options & PTL_MD_EVENT_SEND_DISABLE)))
        return;
    event = (struct ptlx_event){
        .type = type,
        .ni_fail = (uint32_t)fail,
        .nid = op->nid,
        .pid = op->pid,
        .user_ptr = op->user_ptr,
        .mlength = mlength,
        .rlength = op->length,
        .remote_offset = offset,
        .match_bits = op->match_bits,
        .hdr_data = op->hdr_data,
        .pt_index = op->pt_index,
        .list = op->list,
        .operation = op->operation,
        .datatype = op->datatype,
    };
    ptl_eq_post (md->eq, &event);
}

static void count (const struct ptl_md *md, unsigned option, int fail,
                   uint64_t bytes)
{
    bool by_bytes = md->md.options & PTL_MD_EVENT_CT_BYTES;

    if (!md->ct || !(md->md.options & option))
        return;
    if (fail == PTL_NI_OK)
        ptl_ct_add (md->ct, by_bytes ? bytes : 1, 0);
    else
        ptl_ct_add (md->ct, 0, 1);
}

static void tell_sent (const struct ptl_op *op, int fail)
{
    uint64_t length = fail == PTL_NI_OK ? op->length : 0;

    post (op, op->md, PTL_EVENT_SEND, fail, length, op->offset);
    count (op->md, PTL_MD_EVENT_CT_SEND, fail, length);
}

/* ---- puts and atomic operations ---- */

static void put_sent (struct ptl_op *op)
{
    tell_sent (op, PTL_NI_OK);
}

/* An operation that was never sent fails as SEND, too. */
static bool is_unsent (const struct ptl_op *op, int fail)
{
    return op->state != PTL_OP_SENT && fail == PTL_NI_UNDELIVERABLE;
}

/* PTL_OC_ACK_REQ counts operations that have arrived at the target, whatever
 * the target did with them. */
static void count_ack (const struct ptl_op *op, int fail, uint64_t mlength)
{
    const struct ptl_md *md = op->md;

    if (op->ack != PTL_OC_ACK_REQ || fail == PTL_NI_UNDELIVERABLE)
        count (md, PTL_MD_EVENT_CT_ACK, fail, mlength);
    else if (md->ct && (md->md.options & PTL_MD_EVENT_CT_ACK))
        ptl_ct_add (md->ct, 1, 0);
}

static void put_ended (struct ptl_op *op, int fail, uint64_t mlength,
                       uint64_t offset)
{
    if (is_unsent (op, fail))
        tell_sent (op, fail);
    if (op->ack == PTL_ACK_REQ)
        post (op, op->md, PTL_EVENT_ACK, fail, mlength, offset);
    if (op->ack != PTL_NO_ACK_REQ)
        count_ack (op, fail, mlength);
}

/* ---- gets, and atomic operations that fetch ---- */

static void tell_reply (const struct ptl_op *op, int fail, uint64_t mlength,
                        uint64_t offset)
{
    post (op, op->get_md, PTL_EVENT_REPLY, fail, mlength, offset);
    count (op->get_md, PTL_MD_EVENT_CT_REPLY, fail, mlength);
}

static void get_ended (struct ptl_op *op, int fail, uint64_t mlength,
                       uint64_t offset)
{
    tell_reply (op, fail, mlength, offset);
}

/* The reply does not need the descriptor of the data. */
static void fetch_sent (struct ptl_op *op)
{
    tell_sent (op, PTL_NI_OK);
    op->md->users--;
    op->md = NULL;
}

static void fetch_ended (struct ptl_op *op, int fail, uint64_t mlength,
                         uint64_t offset)
{
    if (op->md && is_unsent (op, fail))
        tell_sent (op, fail);
    tell_reply (op, fail, mlength, offset);
}

/* ---- each of them ---- */

static void release (struct ptl_op *op)
{
    if (op->md)
        op->md->users--;
    if (op->get_md)
        op->get_md->users--;
    op->md = op->get_md = NULL;
}

static const struct ptl_op_class *class_of (enum ptl_frame_type type)
{
    static const struct ptl_op_class put = { put_sent, put_ended, release };
    static const struct ptl_op_class get = { NULL, get_ended, release };
    static const struct ptl_op_class fetch
        = { fetch_sent, fetch_ended, release };

    if (type == PTL_FRAME_GET)
        return &get;
    return type == PTL_FRAME_FETCH ? &fetch : &put;
}

/* ---- what may be asked for ---- */

static bool is_within (const struct ptl_md *md, uint64_t at, uint64_t length)
{
    return !md
        || (at <= md->mem.length && length <= md->mem.length - at);
}

static bool has_ack (const struct ptl_move *m)
{
    switch (m->ack) {
    case PTL_NO_ACK_REQ:
        return true;
    case PTL_ACK_REQ:
        return m->md->eq;
    case PTL_CT_ACK_REQ:
    case PTL_OC_ACK_REQ:
        return m->md->ct;
    }
    return false;
}

/* Is an ack needed? Only if it gives an event or a count. Else the descriptor
 * is free as soon as its bytes are sent. */
static bool wants_ack (const struct ptl_move *m)
{
    if (m->ack == PTL_NO_ACK_REQ)
        return false;
    return (m->ack == PTL_ACK_REQ && m->md->eq)
        || (m->md->ct && (m->md->md.options & PTL_MD_EVENT_CT_ACK));
}

static bool is_operation (const struct ptl_move *m)
{
    enum ptl_atomic_call call = PTL_CALL_ATOMIC;

    if (m->type == PTL_FRAME_FETCH)
        call = m->is_swap ? PTL_CALL_SWAP : PTL_CALL_FETCH_ATOMIC;
    return ptl_atomic_allows (call, m->operation, m->datatype)
        && ptl_atomic_fits (m->operation, m->datatype, m->length)
        && (m->operand || !ptl_atomic_needs_operand (m->operation));
}

static bool is_valid (const struct ptl_move *m, const struct ptl_ni *ni)
{
    if ((m->get_md && m->get_md->ni != ni)
        || m->pt_index >= PTL_PT_MOST
        || !is_within (m->md, m->at, m->length)
        || !is_within (m->get_md, m->get_at, m->length) || !has_ack (m)
        || (m->trigger && m->trigger->ni != ni))
        return false;
    switch (m->type) {
    case PTL_FRAME_ATOMIC:
        return m->length <= ni->limits.max_atomic_size && is_operation (m);
    case PTL_FRAME_FETCH:
        return m->length <= ni->limits.max_fetch_atomic_size
            && is_operation (m);
    default:
        return m->length <= ni->limits.max_msg_size;
    }
}

/* The id of a target. False: it names none. */
static bool resolve (const struct ptl_ni *ni, const ptl_process_t *target,
                     uint32_t *nid, uint32_t *pid)
{
    const ptl_process_t *id = target;

    if (ptl_ni_is_logical (ni)) {
        if (!ni->map || target->rank >= ni->map->size)
            return false;
        id = &ni->map->processes[target->rank];
    }
    *nid = id->phys.nid;
    *pid = id->phys.pid;
    return *nid != 0 && *nid != PTL_NID_ANY && *pid != 0
        && (*pid != PTL_PID_ANY || *nid < LOCAL_NIDS);
}

/* ---- beginning ---- */

static bool is_volatile (const struct ptl_move *m, const struct ptl_ni *ni)
{
    return m->md && (m->md->md.options & PTL_MD_VOLATILE)
        && m->length <= ni->limits.max_volatile_size;
}

static struct ptl_op *make (const struct ptl_move *m, struct ptl_ni *ni)
{
    bool copies = is_volatile (m, ni);
    uint32_t operand = 0;
    struct ptl_op *op;

    if (m->is_swap)
        operand = ptl_wire_operand (m->operation, m->datatype);
    op = ptl_op_alloc (ni->end, class_of (m->type),
                       operand + (copies ? m->length : 0));
    if (!op)
        return NULL;
    op->operand_bytes = (uint8_t)operand;
    if (operand > 0)
        memcpy (op->copy, m->operand, operand);
    op->is_volatile = copies;
    op->length = m->length;
    if ((op->md = m->md)) {
        op->md->users++;
        ptl_op_set_data (op, &m->md->mem, m->at, m->length);
    }
    if ((op->get_md = m->get_md)) {
        op->get_md->users++;
        op->get_mem = &m->get_md->mem;
        op->get_at = m->get_at;
    }
    return op;
}

int ptl_move (const struct ptl_move *m)
{
    struct ptl_ni *ni = m->md ? m->md->ni : m->get_md->ni;
    uint32_t nid, pid;
    struct ptl_op *op;
    int rc;

    if (!is_valid (m, ni) || !resolve (ni, &m->target, &nid, &pid))
        return PTL_ARG_INVALID;
    if (!(op = make (m, ni)))
        return PTL_NO_SPACE;
    op->type = (uint8_t)m->type;
    op->ni = ni;
    op->nid = nid;
    op->pid = pid;
    op->kind = ni->kind;
    op->lane = PTL_LANE_DATA;
    op->pt_index = (uint8_t)m->pt_index;
    op->ack = wants_ack (m) ? (uint8_t)m->ack : PTL_NO_ACK_REQ;
    op->operation = (uint8_t)m->operation;
    op->datatype = (uint8_t)m->datatype;
    op->match_bits = m->match_bits;
    op->offset = m->remote_offset;
    op->hdr_data = m->hdr_data;
    op->user_ptr = m->user_ptr;
    op->work.threshold = m->threshold;
    if (!m->trigger) {
        ptl_op_start (op, false);
        return PTL_OK;
    }
    if ((rc = ptl_ct_trigger (m->trigger, &op->work)) != PTL_OK)
        ptl_op_discard (op);
    return rc;
}

/* ---- messages ---- */

/* The ack frees the copy. A peer that refuses messages altogether is lost. */
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
    if (op->owner)
        ptl_share_give_back (op->owner, op->length);
    if (fail == PTL_NI_UNDELIVERABLE
        || (fail == PTL_NI_OK && mlength == op->length))
        return;
    ptl_end_notify (op->end, &event);
}

static const struct ptl_op_class message_class = { NULL, message_ended, NULL };

int ptl_move_message (struct ptl_end *end, uint32_t nid, uint32_t pid,
                      const void *data, size_t length)
{
    struct ptl_peer *peer = ptl_peer_find (end, nid, pid);
    struct ptl_share *share
        = peer && peer->uid ? ptl_share_find (end, peer->uid) : NULL;
    struct ptl_op *op;

    if (length > PTLX_MESSAGE_MAX_BYTES || nid == 0 || nid == PTL_NID_ANY
        || pid == 0 || (!data && length > 0))
        return PTL_ARG_INVALID;
    if (share && !ptl_share_hold (end, share, length)) {
        ptl_peer_lost (peer, PTLX_LOSS_UNREAD, 0);
        return PTL_OK;
    }
    if (!(op = ptl_op_alloc (end, &message_class, length))) {
        if (share)
            ptl_share_give_back (share, length);
        return PTL_NO_SPACE;
    }
    op->owner = share;
    if (length > 0)
        memcpy (op->copy, data, length);
    op->nid = nid;
    op->pid = pid;
    op->lane = PTL_LANE_CONTROL;
    op->flags = PTL_FLAG_RETRY;
    op->ack = PTL_ACK_REQ;
    op->data = op->copy;
    op->length = length;
    ptl_op_start (op, true);
    return PTL_OK;
}
