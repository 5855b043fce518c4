#include "ptl_fwd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ptl_blake2b.h"
#include "ptl_ct.h"
#include "ptl_me.h"
#include "ptl_ni.h"
#include "ptl_op.h"
#include "ptl_peer.h"

#define SOURCE_BUFFERS 4
#define TRIGGERED_MAX (1u << 20) /* chunks x children */
#define CHUNK_MAX (64u << 20)
#define NO_PARENT UINT64_MAX

struct ptl_fwd {
    struct ptl_work work; /* first: in ni->later */
    struct ptl_node node; /* in ni->objects */
    struct ptl_ni *ni;
    struct ptlx_object object; /* children: own copy */
    uint64_t n_chunks;
    bool is_over;    /* failed, cancelled or complete: no more events */
    bool is_arrived; /* the event has been posted */
    unsigned n_ops;  /* alive */
    int fd;          /* source: the file; receiver: read-only, or -1 */

    uint8_t *map;
    struct ptl_me *me; /* or NULL */
    struct ptl_ct *ct;
    uint64_t parent; /* serial of the connection */
    uint64_t landed, hashed; /* chunks */
    struct ptl_blake2b hash;
    int64_t first_ns, last_ns;

    uint64_t next_chunk; /* source: to be read */
    uint8_t *buffers[SOURCE_BUFFERS];
    unsigned users[SOURCE_BUFFERS];
};

static uint64_t chunk_length (const struct ptl_fwd *fwd, uint64_t chunk)
{
    uint64_t from = chunk * fwd->object.chunk_bytes;
    uint64_t left = fwd->object.size - from;

    return left < fwd->object.chunk_bytes ? left : fwd->object.chunk_bytes;
}

static void do_later (struct ptl_fwd *fwd)
{
    if (ptl_list_empty (&fwd->work.node))
        ptl_list_append (&fwd->ni->later, &fwd->work.node);
}

static void notify (struct ptl_fwd *fwd, uint32_t type)
{
    struct ptlx_event event = {
        .type = type,
        .match_bits = fwd->object.match_bits,
        .first_ns = fwd->first_ns,
        .last_ns = fwd->last_ns,
    };

    if (type == PTLX_EVENT_OBJECT_ARRIVED)
        ptl_blake2b_final (&fwd->hash, event.digest);
    ptl_ni_notify (fwd->ni, &event);
}

/* ---- ending ---- */

static void destroy (struct ptl_fwd *fwd)
{
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
    for (int i = 0; i < SOURCE_BUFFERS; i++)
        free (fwd->buffers[i]);
    free ((void *)(uintptr_t)fwd->object.children);
    free (fwd);
}

/* Freed when no operation and no arriving chunk uses its memory. */
static void destroy_if_unused (struct ptl_fwd *fwd)
{
    if (fwd->is_over && fwd->n_ops == 0 && (!fwd->me || fwd->me->busy == 0))
        destroy (fwd);
}

static void discard_from (struct ptl_fwd *fwd, struct ptl_node *list)
{
    struct ptl_node *next;
    struct ptl_op *op;

    for (struct ptl_node *n = list->next; n != list; n = next) {
        next = n->next;
        op = ptl_entry (n, struct ptl_op, work.node);
        if (op->owner == fwd) {
            ptl_op_discard (op);
            fwd->n_ops--;
        }
    }
}

/* What has not begun will not begin. */
static void discard_ops (struct ptl_fwd *fwd)
{
    struct ptl_peer *peer;
    const ptl_process_t *child;

    if (fwd->ct)
        discard_from (fwd, &fwd->ct->triggers);
    discard_from (fwd, &fwd->ni->work);
    for (uint32_t i = 0; i < fwd->object.n_children; i++) {
        child = &fwd->object.children[i];
        peer = ptl_peer_find (fwd->ni, child->phys.nid, child->phys.pid);
        if (peer)
            discard_from (fwd, &peer->lanes[PTL_LANE_BULK]);
    }
}

static void end (struct ptl_fwd *fwd)
{
    fwd->is_over = true;
    if (fwd->me) { /* nothing matches it any more; it may still be busy */
        ptl_list_remove (&fwd->me->node);
    }
    discard_ops (fwd);
    do_later (fwd);
}

static void fail (struct ptl_fwd *fwd, uint32_t reason, int detail,
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
    end (fwd);
    ptl_ni_notify (fwd->ni, &event);
}

/* ---- chunks to the children ---- */

static void chunk_sent (struct ptl_op *op)
{
    struct ptl_fwd *fwd = op->owner;

    if (!fwd->object.is_source)
        return;
    for (int i = 0; i < SOURCE_BUFFERS; i++)
        if (fwd->buffers[i] == op->data)
            fwd->users[i]--;
    do_later (fwd);
}

static void chunk_ended (struct ptl_op *op, int failed, uint64_t mlength,
                         uint64_t offset)
{
    struct ptl_fwd *fwd = op->owner;

    (void)offset;
    fwd->n_ops--;
    do_later (fwd);
    if (failed == PTL_NI_UNDELIVERABLE)
        fail (fwd, PTLX_OBJECT_CHILD_LOST, 0, op);
    else if (failed != PTL_NI_OK || mlength != op->length)
        fail (fwd, PTLX_OBJECT_CHILD_REFUSED, failed, op);
}

static const struct ptl_op_class chunk_class = { chunk_sent, chunk_ended };

static struct ptl_op *chunk_op (struct ptl_fwd *fwd, uint64_t chunk,
                                const ptl_process_t *child,
                                const uint8_t *data)
{
    struct ptl_op *op = ptl_op_alloc (fwd->ni, &chunk_class, 0);

    if (!op)
        return NULL;
    op->nid = child->phys.nid;
    op->pid = child->phys.pid;
    op->lane = PTL_LANE_BULK;
    op->pt_index = PTL_PT_OBJECTS;
    op->ack = PTL_ACK_REQ;
    op->data = data;
    op->length = chunk_length (fwd, chunk);
    op->match_bits = fwd->object.match_bits;
    op->offset = chunk * fwd->object.chunk_bytes;
    op->threshold = chunk + 1;
    op->owner = fwd;
    fwd->n_ops++;
    return op;
}

/* ---- receiving ---- */

static int permits (struct ptl_me *me, const struct ptl_who *who,
                    uint64_t offset, uint64_t length)
{
    const struct ptl_fwd *fwd = me->object;

    if (who->kind != PTLX_KEY_PARTITION
        && !(who->kind == PTLX_KEY_JOB
             && who->job_id == fwd->object.job_id))
        return PTL_NI_PERM_VIOLATION;
    if (fwd->parent != NO_PARENT && fwd->parent != who->serial)
        return PTL_NI_PERM_VIOLATION;
    if (me->busy > 0 || fwd->landed == fwd->n_chunks
        || offset != fwd->landed * fwd->object.chunk_bytes
        || length != chunk_length (fwd, fwd->landed))
        return PTL_NI_OP_VIOLATION;
    ((struct ptl_fwd *)me->object)->parent = who->serial;
    return PTL_NI_OK;
}

/* A whole chunk, or the end of its sender. The counter has released what
 * waits for it; hashing comes after that is on its way. */
static void landed (struct ptl_me *me, const struct ptl_rx *rx, int failed)
{
    struct ptl_fwd *fwd = me->object;

    (void)rx;
    do_later (fwd);
    if (failed != PTL_NI_OK) {
        fail (fwd, PTLX_OBJECT_PARENT_LOST, 0, NULL);
        return;
    }
    fwd->last_ns = ptl_clock_ns ();
    if (fwd->landed++ == 0)
        fwd->first_ns = fwd->last_ns;
}

static const struct ptl_me_owner owner = { permits, landed };

/* The writable mapping goes; what children still need is mapped anew. */
static void seal (struct ptl_fwd *fwd)
{
    void *at = MAP_FAILED;

    if (fwd->n_ops > 0 && fwd->fd >= 0)
        at = mmap (fwd->map, fwd->object.size, PROT_READ,
                   MAP_SHARED | MAP_FIXED, fwd->fd, 0);
    if (at == MAP_FAILED && fwd->n_ops == 0) {
        munmap (fwd->map, fwd->object.size);
        fwd->map = NULL;
    }
    if (fwd->fd >= 0)
        close (fwd->fd);
    fwd->fd = -1;
}

static void hash_landed (struct ptl_fwd *fwd)
{
    for (; fwd->hashed < fwd->landed; fwd->hashed++)
        ptl_blake2b_update (&fwd->hash,
                            fwd->map
                                + fwd->hashed * fwd->object.chunk_bytes,
                            chunk_length (fwd, fwd->hashed));
}

static void arrive (struct ptl_fwd *fwd)
{
    ptl_me_free (fwd->me);
    fwd->me = NULL;
    seal (fwd);
    fwd->is_arrived = true;
    notify (fwd, PTLX_EVENT_OBJECT_ARRIVED);
}

static void tend_receiver (struct ptl_fwd *fwd)
{
    hash_landed (fwd);
    if (fwd->landed < fwd->n_chunks)
        return;
    if (!fwd->is_arrived)
        arrive (fwd);
    if (fwd->n_ops > 0)
        return;
    if (fwd->object.n_children > 0)
        notify (fwd, PTLX_EVENT_OBJECT_SENT);
    fwd->is_over = true;
    destroy (fwd);
}

/* ---- sending ---- */

static int free_buffer (const struct ptl_fwd *fwd)
{
    for (int i = 0; i < SOURCE_BUFFERS; i++)
        if (fwd->users[i] == 0 && fwd->buffers[i])
            return i;
    return -1;
}

/* Fill a buffer. 0, or the reason of failure; *detail an errno. */
static uint32_t read_chunk (struct ptl_fwd *fwd, uint8_t *buffer, int *detail)
{
    uint64_t length = chunk_length (fwd, fwd->next_chunk), have = 0;
    uint64_t from = fwd->next_chunk * fwd->object.chunk_bytes;
    ssize_t n;

    *detail = 0;
    while (have < length) {
        n = pread (fwd->fd, buffer + have, length - have,
                   (off_t)(from + have));
        if (n == 0)
            return PTLX_OBJECT_FILE_SHRANK;
        if (n < 0 && errno != EINTR) {
            *detail = errno;
            return PTLX_OBJECT_FILE_ERROR;
        }
        have += n > 0 ? (uint64_t)n : 0;
    }
    return 0;
}

static bool send_chunk (struct ptl_fwd *fwd, int buffer)
{
    struct ptl_op *op;

    for (uint32_t i = 0; i < fwd->object.n_children; i++) {
        op = chunk_op (fwd, fwd->next_chunk, &fwd->object.children[i],
                       fwd->buffers[buffer]);
        if (!op)
            return false;
        fwd->users[buffer]++;
        ptl_ni_work (fwd->ni, &op->work);
    }
    fwd->next_chunk++;
    return true;
}

static void complete_source (struct ptl_fwd *fwd)
{
    close (fwd->fd); /* before the event: the owner may replace the file */
    fwd->fd = -1;
    notify (fwd, PTLX_EVENT_OBJECT_SENT);
    fwd->is_over = true;
    destroy (fwd);
}

static void tend_source (struct ptl_fwd *fwd)
{
    int buffer = free_buffer (fwd), detail;
    uint32_t reason;

    if (fwd->next_chunk == fwd->n_chunks) {
        if (fwd->n_ops == 0)
            complete_source (fwd);
        return;
    }
    if (buffer < 0)
        return;
    if ((reason = read_chunk (fwd, fwd->buffers[buffer], &detail)) != 0)
        fail (fwd, reason, detail, NULL);
    else if (!send_chunk (fwd, buffer))
        fail (fwd, PTLX_OBJECT_FILE_ERROR, ENOMEM, NULL);
    else
        do_later (fwd); /* there may be another free buffer */
}

static void tend (struct ptl_work *work)
{
    struct ptl_fwd *fwd = (struct ptl_fwd *)work;

    if (fwd->is_over)
        destroy_if_unused (fwd);
    else if (fwd->object.is_source)
        tend_source (fwd);
    else
        tend_receiver (fwd);
}

/* ---- arming ---- */

static bool is_valid (const struct ptlx_object *object)
{
    uint64_t chunks;

    if (object->size == 0 || object->size > INT64_MAX
        || object->chunk_bytes == 0 || object->chunk_bytes > CHUNK_MAX
        || (object->n_children > 0 && !object->children)
        || (object->n_children == 0 && object->is_source))
        return false;
    chunks = (object->size - 1) / object->chunk_bytes + 1;
    return object->n_children == 0
        || chunks <= TRIGGERED_MAX / object->n_children;
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
    fwd->object.children = children;
    return children ? PTL_OK : PTL_NO_SPACE;
}

static int arm_source (struct ptl_fwd *fwd)
{
    uint64_t n = fwd->n_chunks < SOURCE_BUFFERS ? fwd->n_chunks
                                                : SOURCE_BUFFERS;

    if ((fwd->fd = fcntl (fwd->object.fd, F_DUPFD_CLOEXEC, 0)) < 0)
        return PTL_FAIL;
    for (uint64_t i = 0; i < n; i++)
        if (!(fwd->buffers[i] = malloc (chunk_length (fwd, 0))))
            return PTL_NO_SPACE;
    do_later (fwd);
    return PTL_OK;
}

static int map_file (struct ptl_fwd *fwd)
{
    char path[32];
    void *map = mmap (NULL, fwd->object.size, PROT_READ | PROT_WRITE,
                      MAP_SHARED, fwd->object.fd, 0);

    if (map == MAP_FAILED)
        return PTL_FAIL;
    fwd->map = map;
    snprintf (path, sizeof (path), "/proc/self/fd/%d", fwd->object.fd);
    if (fwd->object.n_children > 0)
        fwd->fd = open (path, O_RDONLY | O_CLOEXEC);
    return PTL_OK;
}

static int open_entry (struct ptl_fwd *fwd)
{
    ptl_me_t me = {
        .start = fwd->map,
        .length = fwd->object.size,
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM,
        .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY },
        .match_bits = fwd->object.match_bits,
    };
    uint32_t index;
    int rc = PTL_OK;

    if (!fwd->ni->pt[PTL_PT_OBJECTS].is_allocated)
        rc = ptl_pt_alloc (fwd->ni, 0, NULL, PTL_PT_OBJECTS, &index);
    if (rc == PTL_OK)
        rc = ptl_me_append (fwd->ni, PTL_PT_OBJECTS, &me, fwd->ct,
                            PTL_PRIORITY_LIST, NULL, &fwd->me);
    if (rc == PTL_OK) {
        fwd->me->owner = &owner;
        fwd->me->object = fwd;
    }
    return rc;
}

static int arm_triggers (struct ptl_fwd *fwd)
{
    const struct ptlx_object *o = &fwd->object;
    struct ptl_op *op;

    for (uint64_t k = 0; k < fwd->n_chunks; k++)
        for (uint32_t i = 0; i < o->n_children; i++) {
            op = chunk_op (fwd, k, &o->children[i],
                           fwd->map + k * o->chunk_bytes);
            if (!op)
                return PTL_NO_SPACE;
            ptl_ct_trigger (fwd->ct, op);
        }
    return PTL_OK;
}

static int arm_receiver (struct ptl_fwd *fwd)
{
    int rc;

    fwd->parent = NO_PARENT;
    ptl_blake2b_init (&fwd->hash, NULL, NULL);
    if ((rc = map_file (fwd)) != PTL_OK
        || (rc = ptl_ct_alloc (fwd->ni, &fwd->ct)) != PTL_OK
        || (rc = open_entry (fwd)) != PTL_OK)
        return rc;
    return arm_triggers (fwd);
}

static struct ptl_fwd *find (struct ptl_ni *ni, uint64_t match_bits)
{
    struct ptl_fwd *fwd;

    for (struct ptl_node *n = ni->objects.next; n != &ni->objects;
         n = n->next) {
        fwd = ptl_entry (n, struct ptl_fwd, node);
        if (fwd->object.match_bits == match_bits && !fwd->is_over)
            return fwd;
    }
    return NULL;
}

int ptl_fwd_arm (struct ptl_ni *ni, const struct ptlx_object *object)
{
    struct ptl_fwd *fwd;
    int rc;

    if (!is_valid (object))
        return PTL_ARG_INVALID;
    if (find (ni, object->match_bits))
        return PTL_IN_USE;
    if (!(fwd = calloc (1, sizeof (*fwd))))
        return PTL_NO_SPACE;
    fwd->ni = ni;
    fwd->work.run = tend;
    fwd->object = *object;
    fwd->fd = -1;
    fwd->n_chunks = (object->size - 1) / object->chunk_bytes + 1;
    ptl_list_init (&fwd->work.node);
    ptl_list_append (&ni->objects, &fwd->node);
    if ((rc = copy_children (fwd)) == PTL_OK)
        rc = object->is_source ? arm_source (fwd) : arm_receiver (fwd);
    if (rc != PTL_OK) {
        end (fwd);
        destroy_if_unused (fwd);
    }
    return rc;
}

void ptl_fwd_cancel (struct ptl_ni *ni, uint64_t match_bits)
{
    struct ptl_fwd *fwd = find (ni, match_bits);

    if (fwd)
        end (fwd);
}

void ptl_fwd_peer_lost (struct ptl_ni *ni, uint64_t serial)
{
    struct ptl_node *next;
    struct ptl_fwd *fwd;

    for (struct ptl_node *n = ni->objects.next; n != &ni->objects; n = next) {
        next = n->next;
        fwd = ptl_entry (n, struct ptl_fwd, node);
        if (!fwd->object.is_source && fwd->parent == serial
            && fwd->landed < fwd->n_chunks)
            fail (fwd, PTLX_OBJECT_PARENT_LOST, 0, NULL);
    }
}

void ptl_fwd_free_all (struct ptl_ni *ni)
{
    while (!ptl_list_empty (&ni->objects)) {
        struct ptl_fwd *fwd
            = ptl_entry (ni->objects.next, struct ptl_fwd, node);

        if (!fwd->is_over)
            end (fwd);
        destroy (fwd);
    }
}
