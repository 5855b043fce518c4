#include "ptl_fwd.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ptl_ct.h"
#include "ptl_fwd_parts.h"
#include "ptl_me.h"
#include "ptl_end.h"
#include "ptl_op.h"
#include "ptl_peer.h"

#define CHUNK_MAX (4u << 20) /* read or hashed in one go */

uint64_t ptl_fwd_chunk_length (const struct ptl_fwd *fwd, uint64_t chunk)
{
    uint64_t from = chunk * fwd->object.chunk_bytes;
    uint64_t left = fwd->object.size - from;

    return left < fwd->object.chunk_bytes ? left : fwd->object.chunk_bytes;
}

void ptl_fwd_do_later (struct ptl_fwd *fwd)
{
    if (ptl_list_empty (&fwd->work.node))
        ptl_list_append (&fwd->end->later, &fwd->work.node);
}

void ptl_fwd_notify (struct ptl_fwd *fwd, uint32_t type)
{
    struct ptlx_event event = {
        .type = type,
        .match_bits = fwd->object.match_bits,
        .first_ns = fwd->first_ns,
        .last_ns = fwd->last_ns,
    };

    if (type == PTLX_EVENT_OBJECT_ARRIVED)
        ptl_blake2b_final (&fwd->hash, event.digest);
    ptl_end_notify (fwd->end, &event);
}

/* ---- ending ---- */

void ptl_fwd_destroy (struct ptl_fwd *fwd)
{
    ptl_fwd_turns_leave (fwd);
    ptl_list_remove (&fwd->work.node);
    ptl_list_remove (&fwd->node);
    if (fwd->me)
        ptl_me_free (fwd->me);
    if (fwd->ct)
        ptl_ct_free (fwd->ct);
    if (fwd->map)
        munmap (fwd->map, fwd->object.size);
    if (fwd->fd >= 0)
        close (fwd->fd);
    for (int i = 0; i < PTL_SOURCE_BUFFERS; i++)
        free (fwd->buffers[i]);
    free ((void *)(uintptr_t)fwd->object.children);
    free (fwd);
}

/* Free the object once no operation and no arriving chunk uses its memory. */
static void destroy_if_unused (struct ptl_fwd *fwd)
{
    if (fwd->is_over && fwd->n_ops == 0 && (!fwd->me || fwd->me->busy == 0))
        ptl_fwd_destroy (fwd);
}

static void discard_from (struct ptl_fwd *fwd, struct ptl_node *list)
{
    struct ptl_node *next;
    struct ptl_op *op;

    for (struct ptl_node *n = list->next; n != list; n = next) {
        next = n->next;
        op = ptl_op_of (ptl_entry (n, struct ptl_work, node));
        if (op && op->owner == fwd) {
            ptl_op_discard (op);
            ptl_fwd_puts_ended (fwd, 1);
        }
    }
}

/* Discard the puts that have not begun. */
static void discard_ops (struct ptl_fwd *fwd)
{
    struct ptl_peer *peer;
    const ptl_process_t *child;

    if (fwd->ct)
        discard_from (fwd, &fwd->ct->triggers);
    discard_from (fwd, &fwd->end->work);
    for (uint32_t i = 0; i < fwd->object.n_children; i++) {
        child = &fwd->object.children[i];
        peer = ptl_peer_find (fwd->end, child->phys.nid, child->phys.pid);
        if (!peer)
            continue;
        discard_from (fwd, &peer->lanes[PTL_LANE_BULK]);
        discard_from (fwd, &peer->after);
    }
}

static void finish (struct ptl_fwd *fwd)
{
    fwd->is_over = true;
    ptl_fwd_turn_forgo (fwd);
    if (fwd->me) { /* matched no more, but may still be busy */
        ptl_list_remove (&fwd->me->node);
    }
    discard_ops (fwd);
    ptl_fwd_do_later (fwd);
}

void ptl_fwd_fail (struct ptl_fwd *fwd, uint32_t reason, int detail,
                  const struct ptl_op *op)
{
    struct ptlx_event event = {
        .type = PTLX_EVENT_OBJECT_FAILED,
        .match_bits = fwd->object.match_bits,
        .nid = op ? op->nid : 0,
        .pid = op ? op->pid : 0,
        .reason = reason,
        .detail = detail,
    };

    if (fwd->is_over)
        return;
    finish (fwd);
    ptl_end_notify (fwd->end, &event);
}

/* ---- chunks to the children ---- */

static void chunk_sent (struct ptl_op *op)
{
    struct ptl_fwd *fwd = op->owner;

    if (!fwd->object.is_source)
        return;
    for (int i = 0; i < PTL_SOURCE_BUFFERS; i++)
        if (fwd->buffers[i] == op->data)
            fwd->users[i]--;
    ptl_fwd_do_later (fwd);
}

static void chunk_ended (struct ptl_op *op, int failed, uint64_t mlength,
                         uint64_t offset)
{
    struct ptl_fwd *fwd = op->owner;

    (void)offset;
    ptl_fwd_puts_ended (fwd, 1);
    ptl_fwd_do_later (fwd);
    if (failed == PTL_NI_UNDELIVERABLE)
        ptl_fwd_fail (fwd, PTLX_OBJECT_CHILD_LOST, 0, op);
    else if (failed != PTL_NI_OK || mlength != op->length)
        ptl_fwd_fail (fwd, PTLX_OBJECT_CHILD_REFUSED, failed, op);
}

static const struct ptl_op_class chunk_class
    = { chunk_sent, chunk_ended, NULL };

struct ptl_op *ptl_fwd_chunk (struct ptl_fwd *fwd, uint64_t chunk,
                                const ptl_process_t *child,
                                const uint8_t *data)
{
    struct ptl_op *op = ptl_op_alloc (fwd->end, &chunk_class, 0);

    if (!op)
        return NULL;
    op->nid = child->phys.nid;
    op->pid = child->phys.pid;
    op->lane = PTL_LANE_BULK;
    op->pt_index = PTL_PT_OBJECTS;
    op->ack = PTL_ACK_REQ;
    op->data = data;
    op->length = ptl_fwd_chunk_length (fwd, chunk);
    op->match_bits = fwd->object.match_bits;
    op->offset = chunk * fwd->object.chunk_bytes;
    op->work.threshold = chunk + 1;
    op->owner = fwd;
    ptl_fwd_put_made (fwd);
    return op;
}

static void tend (struct ptl_work *work)
{
    struct ptl_fwd *fwd = (struct ptl_fwd *)work;

    if (fwd->is_over)
        destroy_if_unused (fwd);
    else if (fwd->object.is_source)
        ptl_fwd_tend_source (fwd);
    else
        ptl_fwd_tend_receiver (fwd);
}

/* ---- arming ---- */

static bool is_valid (const struct ptlx_object *object)
{
    if (object->size == 0 || object->size > INT64_MAX
        || object->chunk_bytes == 0 || object->chunk_bytes > CHUNK_MAX
        || (object->n_children > 0 && !object->children)
        || (object->n_children == 0 && object->is_source))
        return false;
    return true;
}

static int copy_children (struct ptl_fwd *fwd)
{
    size_t bytes = fwd->object.n_children * sizeof (ptl_process_t);
    ptl_process_t *children;

    if (bytes == 0) {
        fwd->object.children = NULL;
        return PTL_OK;
    }
    children = malloc (bytes);
    if (children)
        memcpy (children, fwd->object.children, bytes);
    else
        fwd->object.n_children = 0;
    fwd->object.children = children;
    return children ? PTL_OK : PTL_NO_SPACE;
}

static struct ptl_fwd *find (struct ptl_end *end, uint64_t match_bits)
{
    struct ptl_fwd *fwd;

    for (struct ptl_node *n = end->objects.next; n != &end->objects;
         n = n->next) {
        fwd = ptl_entry (n, struct ptl_fwd, node);
        if (fwd->object.match_bits == match_bits && !fwd->is_over)
            return fwd;
    }
    return NULL;
}

int ptl_fwd_arm (struct ptl_end *end, const struct ptlx_object *object)
{
    struct ptl_fwd *fwd;
    int rc;

    if (!is_valid (object))
        return PTL_ARG_INVALID;
    if (find (end, object->match_bits))
        return PTL_IN_USE;
    if (!(fwd = calloc (1, sizeof (*fwd))))
        return PTL_NO_SPACE;
    fwd->end = end;
    fwd->work.run = tend;
    fwd->object = *object;
    fwd->fd = -1;
    fwd->n_chunks = (object->size - 1) / object->chunk_bytes + 1;
    ptl_list_init (&fwd->work.node);
    ptl_list_init (&fwd->turn);
    ptl_list_append (&end->objects, &fwd->node);
    if ((rc = copy_children (fwd)) == PTL_OK
        && (rc = ptl_fwd_turns_join (fwd)) == PTL_OK)
        rc = object->is_source ? ptl_fwd_arm_source (fwd)
                               : ptl_fwd_arm_receiver (fwd);
    if (rc != PTL_OK) {
        finish (fwd);
        destroy_if_unused (fwd);
    }
    return rc;
}

void ptl_fwd_cancel (struct ptl_end *end, uint64_t match_bits)
{
    struct ptl_fwd *fwd = find (end, match_bits);

    if (fwd)
        finish (fwd);
}

void ptl_fwd_peer_lost (struct ptl_end *end, uint64_t serial)
{
    struct ptl_node *next;
    struct ptl_fwd *fwd;

    for (struct ptl_node *n = end->objects.next; n != &end->objects; n = next) {
        next = n->next;
        fwd = ptl_entry (n, struct ptl_fwd, node);
        if (!fwd->object.is_source && fwd->parent == serial
            && fwd->landed < fwd->n_chunks)
            ptl_fwd_fail (fwd, PTLX_OBJECT_PARENT_LOST, 0, NULL);
    }
}

void ptl_fwd_free_all (struct ptl_end *end)
{
    while (!ptl_list_empty (&end->objects)) {
        struct ptl_fwd *fwd
            = ptl_entry (end->objects.next, struct ptl_fwd, node);

        if (!fwd->is_over)
            finish (fwd);
        ptl_fwd_destroy (fwd);
    }
}
