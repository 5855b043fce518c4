/* ptl_out.c - frames into the socket: acks first, then the peer's choice. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "ptl_conn.h"
#include "ptl_lane.h"
#include "ptl_near.h"
#include "ptl_op.h"
#include "ptl_peer.h"

#define BATCH_FRAMES 16
#define BATCH_BYTES (64 * 1024) /* a fragment ends a batch */
#define FLUSH_BYTES (1024 * 1024) /* then others have their turn */

static void want_out (struct ptl_conn *conn, bool wanted)
{
    struct epoll_event event = {
        .events = EPOLLIN | (wanted ? EPOLLOUT : 0),
        .data.ptr = conn,
    };

    if (conn->wants_out == wanted)
        return;
    conn->wants_out = wanted;
    if (ptl_near_is_out (conn)) /* a ring tells in its own way */
        return;
    epoll_ctl (conn->end->epoll_fd, EPOLL_CTL_MOD, conn->source.fd, &event);
}

/* Take frames from the peer until the batch is full. */
static unsigned pick (struct ptl_conn *conn, struct ptl_out *batch)
{
    unsigned n = 0;
    size_t bytes = 0;
    struct ptl_frame frame;
    struct ptl_out *out;

    while (conn->peer && n < BATCH_FRAMES && bytes < BATCH_BYTES) {
        out = &batch[n];
        if (!ptl_lane_pick (conn->peer, &frame, &out->op, &out->payload))
            break;
        frame.incarnation = (uint32_t)conn->end->incarnation;
        ptl_wire_encode (&frame, out->header);
        out->done = 0;
        out->length = PTL_HEADER_BYTES + (size_t)frame.length;
        out->is_last = frame.flags & PTL_FLAG_LAST;
        bytes += out->length;
        n++;
    }
    return n;
}

static int add (struct iovec *iov, int n, const void *base, size_t length)
{
    if (length > 0)
        iov[n++] = (struct iovec){ (void *)(uintptr_t)base, length };
    return n;
}

static int gather (struct iovec *iov, int n, const struct ptl_out *out)
{
    size_t done = out->done;

    if (done < PTL_HEADER_BYTES) {
        n = add (iov, n, out->header + done, PTL_HEADER_BYTES - done);
        done = PTL_HEADER_BYTES;
    }
    return add (iov, n, out->payload + (done - PTL_HEADER_BYTES),
                out->length - done);
}

/* Count `n` bytes as sent of the first `count` frames; how many are whole. */
static unsigned account (struct ptl_conn *conn, struct ptl_out *outs,
                         unsigned count, size_t *n)
{
    unsigned i;
    size_t part;

    for (i = 0; i < count; i++) {
        part = outs[i].length - outs[i].done;
        part = part < *n ? part : *n;
        outs[i].done += part;
        *n -= part;
        if (outs[i].done < outs[i].length)
            break;
        conn->end->counters.frames_out++;
        ptl_lane_frame_sent (outs[i].op, outs[i].is_last);
    }
    return i;
}

static void account_small (struct ptl_conn *conn, size_t *n)
{
    size_t part = conn->small_length - conn->small_done;

    part = part < *n ? part : *n;
    conn->small_done += part;
    *n -= part;
    if (conn->small_done < conn->small_length)
        return;
    conn->end->counters.frames_out += conn->small_length / PTL_HEADER_BYTES;
    free (conn->small);
    conn->small = NULL;
    conn->small_done = conn->small_length = conn->small_room = 0;
}

/* Keep what the socket did not take. False: no memory; the operations are in
 * their peer's lists again, to end with it. */
static bool keep (struct ptl_conn *conn, const struct ptl_out *outs,
                  unsigned count)
{
    if (count == 0)
        return true;
    if (!(conn->pending = calloc (count, sizeof (*outs)))) {
        for (unsigned i = 0; i < count; i++)
            if (outs[i].is_last)
                ptl_list_append (&conn->peer->open, &outs[i].op->work.node);
        return false;
    }
    memcpy (conn->pending, outs, count * sizeof (*outs));
    conn->n_pending = count;
    conn->next_pending = 0;
    return true;
}

static ssize_t write_iov (struct ptl_conn *conn, struct iovec *iov, int count)
{
    ssize_t n = ptl_conn_send (conn, iov, count);

    if (n >= 0)
        conn->end->counters.bytes_out += (uint64_t)n;
    return n;
}

/* Results of one write. */
enum step { STEP_MORE, STEP_IDLE, STEP_FULL, STEP_DEAD };

static enum step wrote (struct ptl_conn *conn, ssize_t n, size_t wanted)
{
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        int error = errno;

        ptl_conn_read_all (conn);
        ptl_conn_fail (
            conn, error == EPROTO ? PTLX_LOSS_MISBEHAVED : PTLX_LOSS_DIED,
            error);
        return STEP_DEAD;
    }
    return n < (ssize_t)wanted ? STEP_FULL : STEP_MORE;
}

/* First what was begun; nothing may come between the parts of a frame. */
static enum step write_pending (struct ptl_conn *conn, size_t *budget)
{
    struct ptl_out *outs = conn->pending + conn->next_pending;
    unsigned count = conn->n_pending - conn->next_pending;
    struct iovec iov[2 * BATCH_FRAMES];
    size_t wanted = 0, n;
    int k = 0;
    ssize_t sent;

    for (unsigned i = 0; i < count; i++) {
        k = gather (iov, k, &outs[i]);
        wanted += outs[i].length - outs[i].done;
    }
    sent = write_iov (conn, iov, k);
    n = sent > 0 ? (size_t)sent : 0;
    *budget -= n < *budget ? n : *budget;
    conn->next_pending += account (conn, outs, count, &n);
    if (conn->next_pending == conn->n_pending) {
        free (conn->pending);
        conn->pending = NULL;
        conn->n_pending = conn->next_pending = 0;
    }
    return wrote (conn, sent, wanted);
}

static enum step write_batch (struct ptl_conn *conn, size_t *budget)
{
    struct ptl_out batch[BATCH_FRAMES];
    struct iovec iov[1 + 2 * BATCH_FRAMES];
    size_t wanted = conn->small_length - conn->small_done, n;
    unsigned count = 0, done;
    int k = add (iov, 0, conn->small + conn->small_done, wanted);
    ssize_t sent;

    /* A part of a small frame must not be followed by another frame. */
    if (conn->small_done % PTL_HEADER_BYTES == 0)
        count = pick (conn, batch);
    for (unsigned i = 0; i < count; i++) {
        k = gather (iov, k, &batch[i]);
        wanted += batch[i].length;
    }
    if (k == 0)
        return STEP_IDLE;
    sent = write_iov (conn, iov, k);
    n = sent > 0 ? (size_t)sent : 0;
    *budget -= n < *budget ? n : *budget;
    account_small (conn, &n);
    done = account (conn, batch, count, &n);
    if (!keep (conn, batch + done, count - done)) {
        ptl_conn_fail (conn, PTLX_LOSS_DIED, ENOMEM);
        return STEP_DEAD;
    }
    return wrote (conn, sent, wanted);
}

/* After a goodbye the stream ends; the socket stays to be drained. */
static void end_stream (struct ptl_conn *conn)
{
    if (conn->state == PTL_CONN_DRAINING)
        shutdown (conn->source.fd, SHUT_WR);
}

/* Nothing is half out: a frame about shared memory may go. */
static bool is_between_frames (const struct ptl_conn *conn)
{
    return conn->small_done % PTL_HEADER_BYTES == 0
        && (conn->n_pending == 0
            || conn->pending[conn->next_pending].done == 0);
}

static enum step write_memory (struct ptl_conn *conn)
{
    size_t wanted;
    ssize_t n = ptl_near_pay (conn, &wanted);

    return wrote (conn, n, wanted);
}

/* Small frames of which a part is out go before kept frames; kept frames of
 * which a part is out go before small ones. Only one of both can be true:
 * a batch is picked behind whole small frames. */
static enum step step (struct ptl_conn *conn, size_t *budget)
{
    if (ptl_near_owes (conn) && is_between_frames (conn))
        return write_memory (conn);
    if (conn->n_pending > 0
        && (conn->small_done % PTL_HEADER_BYTES == 0
            || conn->pending[conn->next_pending].done > 0))
        return write_pending (conn, budget);
    return write_batch (conn, budget);
}

void ptl_conn_flush (struct ptl_conn *conn)
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
    if (conn->peer)
        ptl_peer_hurry (conn->peer);
}
