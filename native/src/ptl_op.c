#include "ptl_op.h"

#include <stdlib.h>
#include <string.h>

#include "ptl_md.h"
#include "ptl_end.h"
#include "ptl_peer.h"

static bool grow (struct ptl_op_table *table)
{
    uint32_t size = table->size ? table->size * 2 : 64;
    void *slots, *generations, *free_list;

    if (size > PTL_OPS_MAX)
        return false;
    slots = realloc (table->slots, size * sizeof (*table->slots));
    if (slots)
        table->slots = slots;
    generations
        = realloc (table->generations, size * sizeof (*table->generations));
    if (generations)
        table->generations = generations;
    free_list = realloc (table->free_list, size * sizeof (*table->free_list));
    if (free_list)
        table->free_list = free_list;
    if (!slots || !generations || !free_list)
        return false;
    for (uint32_t i = size; i > table->size; i--) {
        table->slots[i - 1] = NULL;
        table->generations[i - 1] = 1;
        table->free_list[table->n_free++] = i - 1;
    }
    table->size = size;
    return true;
}

static void run (struct ptl_work *work)
{
    ptl_op_start ((struct ptl_op *)work);
}

static void discard (struct ptl_work *work)
{
    ptl_op_discard ((struct ptl_op *)work);
}

struct ptl_op *ptl_op_of (struct ptl_work *work)
{
    return work->discard == discard ? (struct ptl_op *)work : NULL;
}

struct ptl_op *ptl_op_alloc (struct ptl_end *end,
                             const struct ptl_op_class *class, size_t extra)
{
    struct ptl_op_table *table = &end->ops;
    struct ptl_op *op;

    if (table->n_free == 0 && !grow (table))
        return NULL;
    if (!(op = malloc (sizeof (*op) + extra)))
        return NULL;
    memset (op, 0, sizeof (*op));
    ptl_list_init (&op->work.node);
    op->work.run = run;
    op->work.discard = discard;
    op->end = end;
    op->class = class;
    op->index = table->free_list[--table->n_free];
    op->generation = table->generations[op->index];
    table->slots[op->index] = op;
    return op;
}

struct ptl_op *ptl_op_find (struct ptl_end *end, uint32_t index,
                            uint32_t generation)
{
    struct ptl_op *op;

    if (index >= end->ops.size || !(op = end->ops.slots[index]))
        return NULL;
    return op->generation == generation ? op : NULL;
}

void ptl_op_discard (struct ptl_op *op)
{
    struct ptl_op_table *table = &op->end->ops;

    ptl_list_remove (&op->work.node);
    table->slots[op->index] = NULL;
    table->generations[op->index]++;
    table->free_list[table->n_free++] = op->index;
    if (op->md)
        op->md->users--;
    free (op);
}

static void nobody (struct ptl_op *op, int fail, uint64_t mlength,
                    uint64_t offset)
{
    (void)op;
    (void)fail;
    (void)mlength;
    (void)offset;
}

void ptl_op_orphan (struct ptl_op *op)
{
    static const struct ptl_op_class orphan = { NULL, nobody };

    op->class = &orphan;
    op->ni = NULL;
    if (op->md)
        op->md->users--;
    op->md = NULL;
}

void ptl_op_end (struct ptl_op *op, int fail, uint64_t mlength,
                 uint64_t offset)
{
    ptl_list_remove (&op->work.node);
    op->class->ended (op, fail, mlength, offset);
    ptl_op_discard (op);
}

void ptl_op_sent (struct ptl_op *op)
{
    if (op->class->sent)
        op->class->sent (op);
    op->state = PTL_OP_SENT;
    if (op->ack == PTL_NO_ACK_REQ)
        ptl_op_end (op, PTL_NI_OK, op->length, op->offset);
    else
        ptl_list_append (&op->peer->sent, &op->work.node);
}

/* A put to oneself: match, copy, end. */
static void deliver_here (struct ptl_op *op)
{
    struct ptl_end *end = op->end;
    struct ptl_rx rx;
    struct ptl_frame frame = {
        .kind = op->kind,
        .pt_index = op->pt_index,
        .lane = op->lane,
        .detail = op->ack,
        .total = op->length,
        .match_bits = op->match_bits,
        .offset = op->offset,
        .hdr_data = op->hdr_data,
    };

    if ((op->flags & PTL_FLAG_RETRY) && !ptl_list_empty (&end->self_held)) {
        ptl_end_hold (end, op);
        return;
    }
    ptl_pt_begin (end, &end->self, &frame, &rx);
    if (rx.fail == PTL_NI_PT_DISABLED && (op->flags & PTL_FLAG_RETRY)) {
        ptl_end_hold (end, op);
        return;
    }
    if (rx.mlength > 0)
        memmove (rx.start, op->data, rx.mlength);
    if (op->class->sent)
        op->class->sent (op);
    ptl_pt_end (&end->self, &rx, rx.fail);
    ptl_op_end (op, rx.fail, rx.mlength, rx.offset);
}

static void run_here (struct ptl_work *work)
{
    deliver_here ((struct ptl_op *)work);
}

void ptl_op_start (struct ptl_op *op)
{
    struct ptl_end *end = op->end;

    if (op->nid == end->self.nid && op->pid == end->self.pid) {
        op->work.run = run_here;
        ptl_end_work (end, &op->work);
        return;
    }
    ptl_peer_queue (end, op);
}

void ptl_op_table_free (struct ptl_op_table *table)
{
    free (table->slots);
    free (table->generations);
    free (table->free_list);
    memset (table, 0, sizeof (*table));
}
