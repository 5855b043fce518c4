#include "ptl_op.h"

#include <stdlib.h>
#include <string.h>

#include "ptl_end.h"
#include "ptl_mem.h"
#include "ptl_peer.h"
#include "ptl_self.h"

#define POOLED_BYTES 64 /* of a copy */
#define SPARE_MOST 1024

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
    ptl_op_start ((struct ptl_op *)work, true);
}

static void discard (struct ptl_work *work)
{
    ptl_op_discard ((struct ptl_op *)work);
}

struct ptl_op *ptl_op_of (struct ptl_work *work)
{
    return work->discard == discard ? (struct ptl_op *)work : NULL;
}

static struct ptl_op *block (struct ptl_op_table *table, size_t extra)
{
    struct ptl_op *op = (struct ptl_op *)table->spare;
    bool is_pooled = extra <= POOLED_BYTES;

    if (is_pooled && op) {
        table->spare = (struct ptl_work *)op->work.node.next;
        table->n_spare--;
    }
    else if (!(op = malloc (sizeof (*op)
                            + (is_pooled ? POOLED_BYTES : extra)))) {
        return NULL;
    }
    memset (op, 0, sizeof (*op));
    op->is_pooled = is_pooled;
    return op;
}

static void unblock (struct ptl_op_table *table, struct ptl_op *op)
{
    if (!op->is_pooled || table->n_spare >= SPARE_MOST) {
        free (op);
        return;
    }
    op->work.node.next = (struct ptl_node *)table->spare;
    table->spare = &op->work;
    table->n_spare++;
}

struct ptl_op *ptl_op_alloc (struct ptl_end *end,
                             const struct ptl_op_class *class, size_t extra)
{
    struct ptl_op_table *table = &end->ops;
    struct ptl_op *op;

    if (table->n_free == 0 && !grow (table))
        return NULL;
    if (!(op = block (table, extra)))
        return NULL;
    ptl_list_init (&op->work.node);
    op->work.run = run;
    op->work.discard = discard;
    op->end = end;
    op->class = class;
    op->type = PTL_FRAME_PUT;
    op->index = op->wire_index = table->free_list[--table->n_free];
    op->generation = op->wire_generation = table->generations[op->index];
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

/* ---- data ---- */

void ptl_op_set_data (struct ptl_op *op, const struct ptl_mem *mem,
                      uint64_t at, uint64_t length)
{
    op->length = length;
    if (length == 0)
        return;
    if (!mem->iov) {
        op->data = ptl_mem_at (mem, at);
        return;
    }
    op->mem = mem;
    op->at = at;
}

const uint8_t *ptl_op_span (const struct ptl_op *op, uint64_t position,
                            uint64_t *room)
{
    uint64_t left = op->length - position;
    const uint8_t *data;

    if (op->mem) {
        data = ptl_mem_span (op->mem, op->at + position, room);
        *room = *room < left ? *room : left;
        return data;
    }
    *room = left;
    return op->data ? op->data + position : NULL;
}

void ptl_op_read (const struct ptl_op *op, uint64_t position, void *to,
                  uint64_t length)
{
    if (op->mem)
        ptl_mem_read (op->mem, op->at + position, to, length);
    else if (length > 0)
        memcpy (to, op->data + position, length);
}

/* ---- life ---- */

static void release (struct ptl_op *op)
{
    if (op->class->release)
        op->class->release (op);
    op->get_mem = NULL;
}

void ptl_op_discard (struct ptl_op *op)
{
    struct ptl_op_table *table = &op->end->ops;

    ptl_list_remove (&op->work.node);
    table->slots[op->index] = NULL;
    table->generations[op->index]++;
    table->free_list[table->n_free++] = op->index;
    release (op);
    unblock (table, op);
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
    static const struct ptl_op_class orphan = { NULL, nobody, NULL };

    release (op);
    op->class = &orphan;
    op->ni = NULL;
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
    ptl_list_remove (&op->work.node);
    if (op->class->sent)
        op->class->sent (op);
    op->state = PTL_OP_SENT;
    op->position = 0;
    op->fragment = 0;
    if (ptl_op_is_answered (op))
        ptl_list_append (&op->peer->sent, &op->work.node);
    else
        ptl_op_end (op, PTL_NI_OK, op->length, op->offset);
}

static void run_here (struct ptl_work *work)
{
    ptl_self_deliver ((struct ptl_op *)work);
}

/* Copy the data now: a volatile descriptor may be changed after the call, or
 * once the counter has been reached. */
static void copy_volatile (struct ptl_op *op)
{
    uint8_t *to = op->copy + op->operand_bytes;

    ptl_op_read (op, 0, to, op->length);
    op->data = to;
    op->mem = NULL;
    op->is_volatile = false;
}

void ptl_op_start (struct ptl_op *op, bool may_follow)
{
    struct ptl_end *end = op->end;

    if (op->is_volatile)
        copy_volatile (op);
    if (op->nid == end->self.nid && op->pid == end->self.pid) {
        op->work.run = run_here;
        ptl_end_work (end, &op->work);
        return;
    }
    ptl_peer_queue (end, op, may_follow);
}

void ptl_op_table_free (struct ptl_op_table *table)
{
    struct ptl_op *op;

    while ((op = (struct ptl_op *)table->spare)) {
        table->spare = (struct ptl_work *)op->work.node.next;
        free (op);
    }
    free (table->slots);
    free (table->generations);
    free (table->free_list);
    memset (table, 0, sizeof (*table));
}
