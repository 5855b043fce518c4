/* ptl_out.c - frames into the socket: answers first, then the peer's choice.
 *
 * A batch is encoded into the endpoint's flat buffer, small payloads with it,
 * and goes with one send; of large payloads the batch names the place. What the
 * socket does not take is kept, flat bytes as a copy, and goes before anything
 * else. An operation whose bytes have been copied counts as sent. One that
 * comes when nothing waits is written past the lanes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "ptl_conn.h"
#include "ptl_lane.h"
#include "ptl_near.h"
#include "ptl_op.h"
#include "ptl_peer.h"
#include "ptl_seal.h"

#define ACKS_WAITING 16 /* acks of one connection */
#define SMALL_FIRST 512
#define SMALL_MOST (2 * PTL_UNACKED_MAX) /* answers that wait */
#define PARTS 64
#define PIECES 64
#define INLINE_BYTES 4096
#define BATCH_BYTES (1024 * 1024)
#define FLUSH_BYTES (1024 * 1024) /* then others have their turn */

/* Consecutive bytes: of the flat buffer, or of an operation's data. */
struct part {
    struct ptl_op *op; /* whose data it is, or that is sent with it */
    uint64_t at;       /* in its data; flat: in the buffer */
    size_t length;
    bool is_flat;
    bool is_last; /* with it the operation is sent */
};

struct batch {
    uint8_t *flat;
    size_t used, bytes;
    unsigned n;
    bool is_all; /* nothing more is to be sent now */
    struct part parts[PARTS];
};

struct ptl_pending {
    uint8_t *flat;
    unsigned n, next;
    struct part parts[];
};

/* ---- answers ---- */

/* One small buffer is kept for whoever needs the next. */
static void take_spare (struct ptl_conn *conn)
{
    conn->small = conn->end->spare_small;
    conn->small_room = SMALL_FIRST;
    conn->end->spare_small = NULL;
}

static bool make_room (struct ptl_conn *conn, uint32_t length)
{
    uint32_t room;
    uint8_t *small;

    if (!conn->small && conn->end->spare_small)
        take_spare (conn);
    room = conn->small_room ? conn->small_room : SMALL_FIRST;
    while (room - conn->small_length < length)
        room *= 2;
    if (room == conn->small_room)
        return true;
    if (!(small = realloc (conn->small, room)))
        return false;
    conn->small = small;
    conn->small_room = room;
    return true;
}

/* An honest peer is owed no more answers than it has operations: one that lets
 * them pile up is cut off, so the buffer is bounded. */
static uint8_t *queue (struct ptl_conn *conn, const struct ptl_frame *frame)
{
    uint32_t length = PTL_HEADER_BYTES + frame->length;
    struct ptl_frame full = *frame;
    uint8_t *to;

    if (conn->state == PTL_CONN_DEAD)
        return NULL;
    if (conn->n_small > SMALL_MOST || !make_room (conn, length)) {
        ptl_conn_fail (conn, PTLX_LOSS_MISBEHAVED, ENOBUFS);
        return NULL;
    }
    full.incarnation = (uint32_t)conn->end->incarnation;
    to = conn->small + conn->small_length;
    ptl_wire_encode (&full, to);
    conn->small_length += length;
    conn->n_small++;
    conn->end->counters.frames_out++;
    return to + PTL_HEADER_BYTES;
}

uint8_t *ptl_conn_reserve (struct ptl_conn *conn,
                           const struct ptl_frame *frame)
{
    uint8_t *to = queue (conn, frame);

    if (to)
        ptl_conn_kick (conn);
    return to;
}

void ptl_conn_small (struct ptl_conn *conn, const struct ptl_frame *frame)
{
    ptl_conn_reserve (conn, frame);
}

void ptl_conn_ack (struct ptl_conn *conn, const struct ptl_frame *frame)
{
    struct ptl_end *end = conn->end;

    if (!queue (conn, frame))
        return;
    if (end->config.ack_delay_ms == 0
        || conn->small_length > ACKS_WAITING * PTL_HEADER_BYTES) {
        ptl_conn_kick (conn);
    } else if (conn->ack_ms == 0) {
        conn->ack_ms = end->now_ms + end->config.ack_delay_ms;
        ptl_end_wake_at (end, conn->ack_ms);
    }
}

void ptl_conn_tick_acks (struct ptl_conn *conn)
{
    if (conn->ack_ms > conn->end->now_ms) {
        ptl_end_wake_at (conn->end, conn->ack_ms);
        return;
    }
    conn->ack_ms = 0;
    if (conn->small_length > 0)
        ptl_conn_kick (conn);
}

static void drop_small (struct ptl_conn *conn)
{
    if (conn->small_room == SMALL_FIRST && !conn->end->spare_small)
        conn->end->spare_small = conn->small;
    else
        free (conn->small);
    conn->small = NULL;
    conn->small_length = conn->small_room = conn->n_small = 0;
}

/* ---- filling a batch ---- */

static void add (struct batch *batch, struct ptl_op *op, uint64_t at,
                 size_t length, bool is_last)
{
    batch->parts[batch->n++] = (struct part){ op, at, length, false, is_last };
    batch->bytes += length;
}

/* `length` bytes of the flat buffer, just written; `op` is sent with them. */
static void add_flat (struct batch *batch, size_t length, struct ptl_op *op)
{
    batch->parts[batch->n++]
        = (struct part){ op, batch->used, length, true, op != NULL };
    batch->used += length;
    batch->bytes += length;
}

/* MACs of a header that was just written; how many bytes that makes. */
static size_t seal_header (struct ptl_seal *seal, uint8_t *header)
{
    if (!seal)
        return PTL_HEADER_BYTES;
    ptl_seal_bytes (seal, header, PTL_HEADER_BYTES,
                    header + PTL_HEADER_BYTES);
    return PTL_HEADER_BYTES + PTL_SEAL_BYTES;
}

/* Of a payload that is in one piece: the bytes of its MAC, which follow it. */
static size_t seal_payload (struct ptl_seal *seal, uint8_t *payload,
                            size_t length)
{
    if (!seal || length == 0)
        return 0;
    ptl_seal_bytes (seal, payload, length, payload + length);
    return PTL_SEAL_BYTES;
}

/* Of one that stays where it is, behind its operand. */
static void seal_data (struct batch *batch, struct ptl_seal *seal,
                       const struct ptl_op *op, uint64_t position,
                       size_t length)
{
    struct ptl_blake2b state;
    uint64_t room;

    ptl_seal_begin (seal, &state);
    ptl_blake2b_update (&state, op->copy, op->operand_bytes);
    for (size_t done = 0; done < length; done += room) {
        const uint8_t *from = ptl_op_span (op, position + done, &room);

        room = room < length - done ? room : length - done;
        ptl_blake2b_update (&state, from, room);
    }
    ptl_seal_end (&state, batch->flat + batch->used);
    add_flat (batch, PTL_SEAL_BYTES, NULL);
}

static void add_frame (struct batch *batch, struct ptl_conn *conn,
                       struct ptl_op *op)
{
    struct ptl_seal *seal = conn->seal;
    uint8_t *to = batch->flat + batch->used;
    size_t length, payload, data;
    struct ptl_frame frame;
    uint64_t position;
    bool is_last;

    ptl_lane_take (conn->peer, op, &frame, &position);
    is_last = frame.flags & PTL_FLAG_LAST;
    frame.is_sealed = seal != NULL;
    ptl_wire_encode (&frame, to);
    payload = length = seal_header (seal, to);
    if (op->operand_bytes > 0) {
        memcpy (to + length, op->copy, op->operand_bytes);
        length += op->operand_bytes;
    }
    data = frame.length - op->operand_bytes;
    if (data <= INLINE_BYTES || (seal && op->type == PTL_FRAME_REPLY)) {
        ptl_op_read (op, position, to + length, data);
        length += data;
        length += seal_payload (seal, to + payload, length - payload);
        add_flat (batch, length, is_last ? op : NULL);
    }
    else {
        add_flat (batch, length, NULL);
        add (batch, op, position, data, is_last);
        if (seal)
            seal_data (batch, seal, op, position, data);
    }
    conn->end->counters.frames_out++;
}

#define FRAME_MOST                                                      \
    (PTL_HEADER_BYTES + PTL_OPERAND_MOST + INLINE_BYTES                 \
     + 2 * PTL_SEAL_BYTES)
#define SEALED_FRAME_MOST                                               \
    (PTL_HEADER_BYTES + PTL_SEALED_REPLY_MOST + 2 * PTL_SEAL_BYTES)
#define PARTS_OF_FRAME 3

/* Answers with their MACs, as many as there is room for. False: not all. */
static bool add_sealed (struct batch *batch, struct ptl_conn *conn)
{
    uint32_t from = 0, length;
    uint8_t *to, *small = conn->small;
    size_t begin = batch->used, used = begin;

    while (from < conn->small_length && used + FRAME_MOST <= PTL_FLAT_BYTES) {
        to = batch->flat + used;
        length = ptl_get32 (small + from + 8);
        memcpy (to, small + from, PTL_HEADER_BYTES);
        to[2] |= PTL_FLAG_INTEGRITY;
        from += PTL_HEADER_BYTES;
        used += seal_header (conn->seal, to);
        to = batch->flat + used;
        memcpy (to, small + from, length);
        from += length;
        used += length + seal_payload (conn->seal, to, length);
        conn->n_small--;
    }
    add_flat (batch, used - begin, NULL);
    if (from == conn->small_length) {
        drop_small (conn);
        return true;
    }
    memmove (small, small + from, conn->small_length - from);
    conn->small_length -= from;
    return false;
}

/* False: there was not room for all. */
static bool add_small (struct batch *batch, struct ptl_conn *conn)
{
    if (conn->small_length == 0)
        return true;
    if (conn->seal)
        return add_sealed (batch, conn);
    memcpy (batch->flat, conn->small, conn->small_length);
    add_flat (batch, conn->small_length, NULL);
    drop_small (conn);
    return true;
}

/* Not by an initialiser: it would clear all parts. */
static void clear (struct ptl_conn *conn, struct batch *batch)
{
    batch->flat = conn->end->flat;
    batch->used = batch->bytes = 0;
    batch->n = 0;
    batch->is_all = true;
}

static void fill (struct ptl_conn *conn, struct batch *batch)
{
    size_t most = conn->seal ? SEALED_FRAME_MOST : FRAME_MOST;
    struct ptl_op *op;

    clear (conn, batch);
    batch->is_all = add_small (batch, conn);
    while (batch->is_all && conn->peer && (op = ptl_lane_pick (conn->peer))) {
        if (batch->n + PARTS_OF_FRAME > PARTS || batch->bytes >= BATCH_BYTES
            || batch->used + most > PTL_FLAT_BYTES) {
            batch->is_all = false;
            return;
        }
        add_frame (batch, conn, op);
    }
}

/* ---- writing ---- */

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

/* As many pieces as fit; *bytes says how much that is. */
static int gather (struct iovec *iov, const uint8_t *flat,
                   const struct part *parts, unsigned count, size_t *bytes)
{
    uint64_t done, room;
    int n = 0;

    *bytes = 0;
    for (unsigned i = 0; i < count; i++)
        for (done = 0; done < parts[i].length; done += room) {
            const struct part *part = &parts[i];
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

/* `n` bytes have been taken: how many parts that was. What follows begins where
 * the socket stopped. */
static unsigned account (struct part *parts, unsigned count, size_t n)
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

/* A write failed. What had arrived before the end is read first. */
static enum step broken (struct ptl_conn *conn, int error)
{
    ptl_conn_read_all (conn);
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
static bool keep (struct ptl_conn *conn, const struct batch *batch,
                  unsigned from)
{
    unsigned count = batch->n - from;
    size_t head = sizeof (struct ptl_pending) + count * sizeof (struct part);
    size_t flat = 0;
    struct ptl_pending *pending;
    struct part *part;

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

/* First what was begun: nothing may come between the parts of a frame. */
static enum step write_pending (struct ptl_conn *conn, size_t *budget)
{
    struct ptl_pending *pending = conn->pending;
    struct part *parts = pending->parts + pending->next;
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

/* More answers than the flat buffer holds wait by themselves. */
static bool keep_small (struct ptl_conn *conn)
{
    struct batch batch = {
        .flat = conn->small,
        .n = 1,
        .parts = { { NULL, 0, conn->small_length, true, false } },
    };

    if (!keep (conn, &batch, 0)) {
        ptl_conn_fail (conn, PTLX_LOSS_DIED, ENOMEM);
        return false;
    }
    drop_small (conn);
    return true;
}

static enum step write_out (struct ptl_conn *conn, struct batch *batch,
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
    struct batch batch;

    fill (conn, &batch);
    return batch.n == 0 ? STEP_IDLE : write_out (conn, &batch, budget);
}

/* Memory is shared from here on, or not: a frame of its own. */
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
        && conn->small_length > PTL_FLAT_BYTES - FRAME_MOST
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
    else if (wanted) /* it may have it already: others had their turn */
        ptl_near_await_room (conn);
}

/* After a goodbye the stream ends; the socket stays to be drained. */
static void end_stream (struct ptl_conn *conn)
{
    if (conn->state == PTL_CONN_DRAINING)
        shutdown (conn->source.fd, SHUT_WR);
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
    if (conn->peer && conn->peer->is_leaving) {
        ptl_peer_hurry (conn->peer);
        if (conn->peer)
            ptl_peer_drop_idle (conn->peer);
    }
}

/* ---- one by itself ---- */

/* Can it go now, with nothing before it and nothing beside it? */
static bool is_alone (const struct ptl_conn *conn, const struct ptl_op *op)
{
    return conn->state == PTL_CONN_READY && !conn->is_parting
        && !conn->wants_out && !conn->pending
        && conn->small_length == 0 && !conn->seal && !ptl_near_owes (conn)
        && conn->end->n_bundles == 0
        && (op->length <= INLINE_BYTES || op->type == PTL_FRAME_GET)
        && ptl_lane_is_free (conn->peer, op);
}

bool ptl_conn_write_alone (struct ptl_conn *conn, struct ptl_op *op)
{
    size_t budget = FLUSH_BYTES;
    struct batch batch;

    if (!is_alone (conn, op))
        return false;
    clear (conn, &batch);
    add_frame (&batch, conn, op);
    if (write_out (conn, &batch, &budget) == STEP_FULL)
        want_out (conn, true);
    return true;
}
