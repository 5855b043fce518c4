#include "ptl_self.h"

#include <string.h>

#include "ptl_end.h"
#include "ptl_mem.h"
#include "ptl_op.h"
#include "ptl_serve.h"

/* Staging is free while work is run, as nothing is read then. It holds a copy
 * of the data of an atomic operation, which must not change meanwhile. */
_Static_assert (PTL_ATOMIC_MOST <= PTL_STAGING_BYTES, "one buffer");

static struct ptl_frame frame_of (const struct ptl_op *op)
{
    return (struct ptl_frame){
        .type = op->type,
        .kind = op->kind,
        .pt_index = op->pt_index,
        .lane = op->lane,
        .detail = op->ack,
        .operation = op->operation,
        .datatype = op->datatype,
        .total = op->length,
        .match_bits = op->match_bits,
        .offset = op->offset,
        .hdr_data = op->hdr_data,
    };
}

static void put (const struct ptl_op *op, const struct ptl_rx *rx)
{
    uint64_t done = 0, here, there;

    while (done < rx->mlength) {
        const uint8_t *from = ptl_op_span (op, done, &here);
        uint8_t *to = ptl_mem_span (rx->mem, rx->offset + done, &there);

        here = here < there ? here : there;
        there = rx->mlength - done;
        here = here < there ? here : there;
        memmove (to, from, here);
        done += here;
    }
}

/* Copy the entry's bytes into the descriptor of the reply. */
static void get (const struct ptl_op *op, const struct ptl_rx *rx)
{
    uint64_t done = 0, here, there;

    while (done < rx->mlength) {
        const uint8_t *from
            = ptl_mem_span (rx->mem, rx->offset + done, &there);
        uint8_t *to
            = ptl_mem_span (op->get_mem, op->get_at + done, &here);

        here = here < there ? here : there;
        there = rx->mlength - done;
        here = here < there ? here : there;
        memmove (to, from, here);
        done += here;
    }
}

static void apply (const struct ptl_op *op, const struct ptl_rx *rx)
{
    uint8_t *data = op->end->staging;

    ptl_op_read (op, 0, data, rx->mlength);
    if (op->type == PTL_FRAME_FETCH)
        get (op, rx);
    ptl_serve_apply (rx, op->copy, data);
}

static void carry (const struct ptl_op *op, const struct ptl_rx *rx)
{
    switch (op->type) {
    case PTL_FRAME_PUT:
        put (op, rx);
        break;
    case PTL_FRAME_GET:
        get (op, rx);
        break;
    default:
        apply (op, rx);
    }
}

void ptl_self_deliver (struct ptl_op *op)
{
    struct ptl_end *end = op->end;
    struct ptl_frame frame = frame_of (op);
    uint64_t mlength, offset;
    struct ptl_rx rx;
    int fail;

    if ((op->flags & PTL_FLAG_RETRY) && !ptl_list_empty (&end->self_held)) {
        ptl_end_hold (end, op);
        return;
    }
    end->above->begin (end, &end->self, &frame, &rx);
    fail = rx.fail;
    if (fail == PTL_NI_PT_DISABLED && (op->flags & PTL_FLAG_RETRY)) {
        ptl_end_hold (end, op);
        return;
    }
    if (rx.me)
        carry (op, &rx);
    if (op->class->sent && op->type != PTL_FRAME_GET)
        op->class->sent (op);
    op->state = PTL_OP_SENT;
    op->list = rx.list;
    if (fail == PTL_NI_OK && rx.is_ack_disabled)
        op->ack = PTL_NO_ACK_REQ;
    mlength = rx.mlength;
    offset = rx.offset;
    end->above->finish (&end->self, &rx, fail);
    ptl_op_end (op, fail, mlength, offset);
}
