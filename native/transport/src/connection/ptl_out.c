#include "ptl_out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "ptl_answer.h"
#include "ptl_batch.h"
#include "ptl_in.h"
#include "ptl_lane.h"
#include "ptl_near.h"
#include "ptl_op.h"
#include "ptl_peer.h"

#define PIECES 64
#define FLUSH_BYTES (1024 * 1024) /* then others have their turn */

struct ptl_pending {
    uint8_t *flat;
    unsigned n, next;
    struct ptl_part parts[];
};

static int add_piece (struct iovec *iov, int n, const void *base,
                      size_t length)
{
    struct iovec *last = n > 0 ? &iov[n - 1] : NULL;

    if (last && (uint8_t *)last->iov_base + last->iov_len == base) {
        last->iov_len += length;
        return n;
    }
    iov[n] = (struct iovec){ (void *)(uintptr_t)base, length };
    return n + 1;
}

/* Add as many pieces as fit; *bytes is their length. */
static int gather (struct iovec *iov, const uint8_t *flat,
                   const struct ptl_part *parts, unsigned count, size_t *bytes)
{
    uint64_t done, room;
    int n = 0;

    *bytes = 0;
    for (unsigned i = 0; i < count; i++)
        for (done = 0; done < parts[i].length; done += room) {
            const struct ptl_part *part = &parts[i];
            const uint8_t *from = flat + part->at + done;

            if (n == PIECES)
                return n;
            room = part->length - done;
            if (!part->is_flat) {
                uint64_t left = room;

                from = ptl_op_span (part->op, part->at + done, &room);
                room = room < left ? room : left;
            }
            n = add_piece (iov, n, from, room);
            *bytes += room;
        }
    return n;
}

static ssize_t write_iov (struct ptl_conn *conn, struct iovec *iov, int count)
{
    ssize_t n = ptl_conn_send (conn, iov, count);

    if (n >= 0)
        conn->end->counters.bytes_out += (uint64_t)n;
    return n;
}

/* `n` bytes have been written. Returns how many parts are complete; the next
 * one then begins where the socket stopped. */
static unsigned account (struct ptl_part *parts, unsigned count, size_t n)
{
    unsigned i;

    for (i = 0; i < count && parts[i].length <= n; i++) {
        n -= parts[i].length;
        if (parts[i].is_last)
            ptl_op_sent (parts[i].op);
    }
    if (i < count) {
        parts[i].at += n;
        parts[i].length -= n;
    }
    return i;
}

/* Results of one write. */
enum step { STEP_MORE, STEP_IDLE, STEP_FULL, STEP_DEAD };

/* A write failed. Read first what had arrived before the end. */
static enum step broken (struct ptl_conn *conn, int error)
{
    ptl_in_read_all (conn);
    ptl_conn_fail (conn,
                   error == EPROTO ? PTLX_LOSS_MISBEHAVED : PTLX_LOSS_DIED,
                   error);
    return STEP_DEAD;
}

static bool is_full (int error)
{
    return error == EAGAIN || error == EWOULDBLOCK;
}

/* Keep the parts that are left. False: no memory. */
static bool keep (struct ptl_conn *conn, const struct ptl_batch *batch,
                  unsigned from)
{
    unsigned count = batch->n - from;
    struct ptl_pending *pending;
    struct ptl_part *part;
    size_t head = sizeof (*pending) + count * sizeof (*part);
    size_t flat = 0;

    for (unsigned i = from; i < batch->n; i++)
        flat += batch->parts[i].is_flat ? batch->parts[i].length : 0;
    if (!(pending = malloc (head + flat)))
        return false;
    pending->flat = (uint8_t *)pending + head;
    pending->n = count;
    pending->next = 0;
    memcpy (pending->parts, batch->parts + from, count * sizeof (*part));
    flat = 0;
    for (part = pending->parts; part < pending->parts + count; part++) {
        if (!part->is_flat)
            continue;
        memcpy (pending->flat + flat, batch->flat + part->at, part->length);
        part->at = flat;
        flat += part->length;
        if (part->is_last) {
            part->is_last = false;
            ptl_op_sent (part->op);
        }
    }
    conn->pending = pending;
    return true;
}

/* Finish a frame that has been begun before anything else. */
static enum step write_pending (struct ptl_conn *conn, size_t *budget)
{
    struct ptl_pending *pending = conn->pending;
    struct ptl_part *parts = pending->parts + pending->next;
    unsigned count = pending->n - pending->next;
    struct iovec iov[PIECES];
    size_t wanted, n;
    int k = gather (iov, pending->flat, parts, count, &wanted);
    ssize_t sent = write_iov (conn, iov, k);

    if (sent < 0 && !is_full (errno))
        return broken (conn, errno);
    n = sent > 0 ? (size_t)sent : 0;
    *budget -= n < *budget ? n : *budget;
    pending->next += account (parts, count, n);
    if (pending->next == pending->n) {
        conn->pending = NULL;
        free (pending);
    }
    return n < wanted ? STEP_FULL : STEP_MORE;
}

/* There are more answers than the flat buffer holds: send them on their own. */
static bool keep_small (struct ptl_conn *conn)
{
    struct ptl_batch batch = {
        .flat = conn->small,
        .n = 1,
        .parts = { { NULL, 0, conn->small_length, true, false } },
    };

    if (!keep (conn, &batch, 0)) {
        ptl_conn_fail (conn, PTLX_LOSS_DIED, ENOMEM);
        return false;
    }
    ptl_answer_clear (conn);
    return true;
}

static enum step write_out (struct ptl_conn *conn, struct ptl_batch *batch,
                            size_t *budget)
{
    struct iovec iov[PIECES];
    size_t wanted, n;
    unsigned done;
    ssize_t sent;
    int k;

    k = gather (iov, batch->flat, batch->parts, batch->n, &wanted);
    sent = write_iov (conn, iov, k);
    if (sent < 0 && !is_full (errno))
        return broken (conn, errno);
    n = sent > 0 ? (size_t)sent : 0;
    *budget -= n < *budget ? n : *budget;
    done = account (batch->parts, batch->n, n);
    if (done == batch->n)
        return batch->is_all ? STEP_IDLE : STEP_MORE;
    if (!keep (conn, batch, done)) {
        ptl_conn_fail (conn, PTLX_LOSS_DIED, ENOMEM);
        return STEP_DEAD;
    }
    return n < wanted ? STEP_FULL : STEP_MORE;
}

static enum step write_batch (struct ptl_conn *conn, size_t *budget)
{
    struct ptl_batch batch;

    ptl_batch_fill (conn, &batch);
    return batch.n == 0 ? STEP_IDLE : write_out (conn, &batch, budget);
}

/* Send the MEMORY frame that is owed, on its own. */
static enum step write_memory (struct ptl_conn *conn)
{
    size_t wanted;
    ssize_t n = ptl_near_pay (conn, &wanted);

    if (n < 0 && !is_full (errno))
        return broken (conn, errno);
    return n < (ssize_t)wanted ? STEP_FULL : STEP_MORE;
}

static enum step step (struct ptl_conn *conn, size_t *budget)
{
    if (!conn->pending && ptl_near_owes (conn))
        return write_memory (conn);
    if (!conn->pending && !conn->seal
        && conn->small_length > PTL_FLAT_BYTES - PTL_FRAME_MOST
        && !keep_small (conn))
        return STEP_DEAD;
    return conn->pending ? write_pending (conn, budget)
                         : write_batch (conn, budget);
}

static void want_out (struct ptl_conn *conn, bool wanted)
{
    struct epoll_event event = {
        .events = EPOLLIN | (wanted ? EPOLLOUT : 0),
        .data.ptr = conn,
    };

    if (conn->wants_out == wanted)
        return;
    conn->wants_out = wanted;
    if (!ptl_near_is_out (conn))
        epoll_ctl (conn->end->epoll_fd, EPOLL_CTL_MOD, conn->source.fd, &event);
    else if (wanted) /* there may be room already */
        ptl_near_await_room (conn);
}

/* After a goodbye the stream ends; the socket stays to be drained. */
static void end_stream (struct ptl_conn *conn)
{
    if (conn->state == PTL_CONN_DRAINING)
        shutdown (conn->source.fd, SHUT_WR);
}

void ptl_out_flush (struct ptl_conn *conn)
{
    size_t budget = FLUSH_BYTES;
    enum step result;

    if (conn->state != PTL_CONN_READY && conn->state != PTL_CONN_DRAINING)
        return;
    do
        result = step (conn, &budget);
    while (result == STEP_MORE && budget > 0);
    if (result == STEP_DEAD)
        return;
    want_out (conn, result != STEP_IDLE);
    if (result != STEP_IDLE)
        return;
    end_stream (conn);
    if (conn->peer && conn->peer->is_leaving) {
        ptl_peer_hurry (conn->peer);
        if (conn->peer)
            ptl_peer_drop_idle (conn->peer);
    }
}

/* ---- one by itself ---- */

/* Can it be sent now, before and without anything else? */
static bool is_alone (const struct ptl_conn *conn, const struct ptl_op *op)
{
    return conn->state == PTL_CONN_READY && !conn->is_parting
        && !conn->wants_out && !conn->pending
        && conn->small_length == 0 && !conn->seal && !ptl_near_owes (conn)
        && conn->end->n_bundles == 0
        && (op->length <= PTL_INLINE_BYTES || op->type == PTL_FRAME_GET)
        && ptl_lane_is_free (conn->peer, op);
}

bool ptl_out_write_alone (struct ptl_conn *conn, struct ptl_op *op)
{
    size_t budget = FLUSH_BYTES;
    struct ptl_batch batch;

    if (!is_alone (conn, op))
        return false;
    ptl_batch_fill_one (conn, &batch, op);
    if (write_out (conn, &batch, &budget) == STEP_FULL)
        want_out (conn, true);
    return true;
}
