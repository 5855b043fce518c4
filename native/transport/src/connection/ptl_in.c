/* ptl_in.c - frames out of the socket.
 *
 * One read fills the rest of the posted buffer and then the endpoint's
 * staging: small payloads are copied out of staging, of a large one only what
 * arrived with its header. An atomic operation is matched and computed when its
 * payload is complete. Whatever a peer sends that FRAMES.md does not
 * allow cuts that peer off, and no one else.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "ptl_conn.h"
#include "ptl_lane.h"
#include "ptl_md.h"
#include "ptl_me.h"
#include "ptl_mem.h"
#include "ptl_near.h"
#include "ptl_peer.h"
#include "ptl_room.h"
#include "ptl_seal.h"
#include "ptl_serve.h"

#define LARGE_BYTES (16 * 1024) /* of a payload: not worth a copy */

static void misbehaved (struct ptl_conn *conn, int detail)
{
    ptl_conn_fail (conn, PTLX_LOSS_MISBEHAVED, detail);
}

/* The last byte of a put is here. */
static void finish (struct ptl_conn *conn, struct ptl_rx *rx)
{
    int fail = rx->fail;

    ptl_pt_end (&conn->who, rx, fail);
    ptl_serve_ack (conn, rx, fail);
}

/* ---- puts ---- */

/* Has a refusal on this entry still to be answered by a RESEND? */
static bool is_out_of_turn (struct ptl_conn *conn, const struct ptl_frame *f)
{
    uint64_t bit;

    if (!(f->flags & PTL_FLAG_RETRY))
        return false;
    bit = UINT64_C (1) << f->pt_index;
    if (f->flags & PTL_FLAG_RESEND)
        conn->refused &= ~bit;
    return conn->refused & bit;
}

/* An entry that is not there refuses without side effects. */
static void refuse (const struct ptl_frame *f, struct ptl_rx *rx)
{
    memset (rx, 0, sizeof (*rx));
    rx->type = f->type;
    rx->op_index = f->op_index;
    rx->op_generation = f->op_generation;
    rx->length = f->total;
    rx->pt_index = f->pt_index;
    rx->ack = f->detail;
    rx->lane = f->lane;
    rx->fail = PTL_NI_PT_DISABLED;
}

static void begin (struct ptl_conn *conn, struct ptl_rx *rx)
{
    const struct ptl_frame *f = &conn->frame;

    if (is_out_of_turn (conn, f))
        refuse (f, rx);
    else
        ptl_pt_begin (conn->end, &conn->who, f, rx);
    if ((f->flags & PTL_FLAG_RETRY) && rx->fail == PTL_NI_PT_DISABLED)
        conn->refused |= UINT64_C (1) << f->pt_index;
}

static struct ptl_rx *free_slot (struct ptl_conn *conn)
{
    if (!conn->open
        && !(conn->open = calloc (PTL_OPEN_MAX, sizeof (*conn->open))))
        return NULL;
    for (int i = 0; i < PTL_OPEN_MAX; i++)
        if (!conn->open[i].is_open)
            return &conn->open[i];
    return NULL;
}

static struct ptl_rx *open_slot (struct ptl_conn *conn)
{
    const struct ptl_frame *f = &conn->frame;

    for (int i = 0; conn->open && i < PTL_OPEN_MAX; i++)
        if (conn->open[i].is_open
            && conn->open[i].op_index == f->op_index
            && conn->open[i].op_generation == f->op_generation)
            return &conn->open[i];
    return NULL;
}

/* First fragment. False: not allowed. */
static bool take_first (struct ptl_conn *conn)
{
    bool is_whole = conn->frame.flags & PTL_FLAG_LAST;

    if (is_whole)
        conn->rx = &conn->single;
    else if (open_slot (conn) || !(conn->rx = free_slot (conn)))
        return false;
    begin (conn, conn->rx);
    if (!is_whole)
        conn->rx->is_open = true;
    return true;
}

static bool take_next (struct ptl_conn *conn)
{
    const struct ptl_frame *f = &conn->frame;
    struct ptl_rx *rx = open_slot (conn);

    if (!rx || f->total != rx->length || f->fragment != rx->next_fragment
        || f->offset != rx->received)
        return false;
    conn->rx = rx;
    ptl_pt_go_on (rx, f->length);
    return true;
}

static void end_put (struct ptl_conn *conn)
{
    struct ptl_rx *rx = conn->rx;

    conn->rx = NULL;
    rx->next_fragment++;
    if (rx->received == rx->length)
        finish (conn, rx);
}

static void take_put (struct ptl_conn *conn)
{
    bool is_first = conn->frame.flags & PTL_FLAG_FIRST;

    if (!(is_first ? take_first (conn) : take_next (conn)))
        misbehaved (conn, EPROTO);
    else if (conn->payload_left == 0)
        end_put (conn);
}

/* ---- answers ---- */

static void take_ack (struct ptl_conn *conn)
{
    const struct ptl_frame *f = &conn->frame;
    struct ptl_op *op = ptl_lane_awaiting (conn->peer, f);
    int fail = f->detail;

    if (!op) {
        misbehaved (conn, EPROTO);
        return;
    }
    op->list = f->hdr_data & 1;
    if (fail == PTL_ACK_SILENT) {
        op->ack = PTL_NO_ACK_REQ;
        fail = PTL_NI_OK;
    }
    ptl_lane_answered (conn->peer, op, fail, f->total, f->offset);
}

static void end_reply (struct ptl_conn *conn)
{
    struct ptl_op *op = conn->reply;

    conn->reply = NULL;
    if (conn->frame.flags & PTL_FLAG_LAST)
        ptl_lane_answered (conn->peer, op, conn->frame.detail, op->position,
                           op->offset);
}

static void take_reply (struct ptl_conn *conn)
{
    const struct ptl_frame *f = &conn->frame;
    struct ptl_op *op = ptl_lane_awaiting (conn->peer, f);
    bool is_first = f->flags & PTL_FLAG_FIRST;

    if (!op || f->fragment != op->fragment
        || (!is_first && (f->total != op->total || f->offset != op->position))) {
        misbehaved (conn, EPROTO);
        return;
    }
    if (is_first) {
        op->total = f->total;
        op->offset = f->offset;
        op->list = f->hdr_data & 1;
    }
    op->fragment++;
    conn->reply = op;
    if (conn->payload_left == 0)
        end_reply (conn);
}

/* ---- gets and atomic operations ---- */

static bool is_gathered (const struct ptl_conn *conn)
{
    return conn->frame.type == PTL_FRAME_ATOMIC
        || conn->frame.type == PTL_FRAME_FETCH;
}

/* All of it is here, in one piece. */
static void end_gather (struct ptl_conn *conn, const uint8_t *payload)
{
    struct ptl_frame frame = conn->frame;

    ptl_serve_atomic (conn, &frame, payload);
}

static void advance (struct ptl_conn *conn, const uint8_t *data, size_t n);

/* Bytes of an atomic operation's payload; how many were taken. */
static size_t take_gathered (struct ptl_conn *conn, const uint8_t *data,
                             size_t length)
{
    uint32_t whole = conn->frame.length, have = whole - conn->payload_left;
    size_t n = conn->payload_left < length ? conn->payload_left : length;

    if (n == whole && !conn->seal) {
        conn->payload_left = 0;
        end_gather (conn, data);
        return n;
    }
    if (!conn->gather && !(conn->gather = malloc (whole))) {
        ptl_conn_fail (conn, PTLX_LOSS_DIED, ENOMEM);
        return length;
    }
    memcpy (conn->gather + have, data, n);
    advance (conn, data, n);
    return n;
}

static void end_if_gathered (struct ptl_conn *conn)
{
    uint8_t *payload = conn->gather;

    if (!payload)
        return;
    conn->gather = NULL;
    end_gather (conn, payload);
    free (payload);
}

/* ---- frames ---- */

static void take_pong (struct ptl_conn *conn)
{
    if (!conn->is_pinged) {
        misbehaved (conn, EPROTO);
        return;
    }
    conn->is_pinged = false;
    ptl_room_stay (conn);
}

/* What a header says counts only with its MAC, where MACs are sent. */
static bool is_proven (struct ptl_conn *conn)
{
    struct ptl_seal *seal = conn->seal;

    if (conn->frame.is_sealed != (seal != NULL))
        return false;
    if (!seal)
        return true;
    if (!ptl_seal_check (seal, conn->header, PTL_HEADER_BYTES,
                         conn->header + PTL_HEADER_BYTES))
        return false;
    if (conn->frame.length > 0)
        ptl_seal_expect (seal);
    return true;
}

static void take_frame (struct ptl_conn *conn)
{
    struct ptl_frame pong = { .type = PTL_FRAME_PONG };
    struct ptl_frame *f = &conn->frame;

    conn->end->counters.frames_in++;
    conn->end->budget_frames--;
    if (ptl_wire_decode (conn->header, f) != PTL_OK
        || f->incarnation != (uint32_t)conn->incarnation
        || !is_proven (conn)) {
        misbehaved (conn, EBADMSG);
        return;
    }
    conn->payload_left = f->length;
    switch (f->type) {
    case PTL_FRAME_PUT:
        take_put (conn);
        break;
    case PTL_FRAME_GET:
        ptl_serve_get (conn, f);
        break;
    case PTL_FRAME_ATOMIC:
    case PTL_FRAME_FETCH:
        if (f->length == 0)
            end_gather (conn, NULL);
        break;
    case PTL_FRAME_ACK:
        take_ack (conn);
        break;
    case PTL_FRAME_REPLY:
        take_reply (conn);
        break;
    case PTL_FRAME_PING:
        if (f->detail == PTL_PING_PART && ptl_room_grant (conn))
            break;
        ptl_conn_small (conn, &pong);
        break;
    case PTL_FRAME_PONG:
        take_pong (conn);
        break;
    case PTL_FRAME_MEMORY:
        if (!ptl_near_take (conn, &conn->frame))
            misbehaved (conn, EPROTO);
        break;
    default: /* BYE */
        if (conn->is_parting)
            ptl_room_parted (conn);
        else
            ptl_conn_fail (conn, PTLX_LOSS_CLOSED, 0);
    }
}

/* ---- payload ---- */

static uint8_t *place_put (const struct ptl_rx *rx, uint64_t *room)
{
    uint64_t left = rx->mlength - rx->received;
    uint8_t *to;

    if (!rx->me || rx->received >= rx->mlength)
        return NULL;
    to = ptl_mem_span (rx->mem, rx->offset + rx->received, room);
    *room = *room < left ? *room : left;
    return to;
}

static uint8_t *place_reply (const struct ptl_op *op, uint64_t *room)
{
    if (!op->get_md) /* nobody wants it any more */
        return NULL;
    return ptl_mem_span (&op->get_md->mem, op->get_at + op->position, room);
}

/* Where the next payload bytes go, and how many; NULL: nowhere (refused or
 * truncated, or not known yet). */
static uint8_t *place (const struct ptl_conn *conn, size_t *room)
{
    uint64_t most = conn->payload_left;
    uint8_t *to = NULL;

    *room = conn->payload_left;
    if (most == 0)
        return NULL;
    if (conn->rx)
        to = place_put (conn->rx, &most);
    else if (conn->reply)
        to = place_reply (conn->reply, &most);
    else if (conn->gather)
        to = conn->gather + (conn->frame.length - conn->payload_left);
    if (to && most < *room)
        *room = most;
    return to;
}

static void end_payload (struct ptl_conn *conn)
{
    if (conn->rx)
        end_put (conn);
    else if (conn->reply)
        end_reply (conn);
    else
        end_if_gathered (conn);
}

/* `n` payload bytes are where they belong, and still at `data`. */
static void advance (struct ptl_conn *conn, const uint8_t *data, size_t n)
{
    if (conn->seal)
        ptl_blake2b_update (&conn->seal->arriving, data, n);
    if (conn->rx)
        conn->rx->received += n;
    else if (conn->reply)
        conn->reply->position += n;
    conn->payload_left -= (uint32_t)n;
    if (conn->payload_left > 0)
        return;
    if (conn->seal)
        conn->seal->is_due = true;
    else
        end_payload (conn);
}

/* The MAC of a payload. */
static size_t take_seal (struct ptl_conn *conn, const uint8_t *data,
                         size_t length)
{
    struct ptl_seal *seal = conn->seal;
    size_t part = PTL_SEAL_BYTES - seal->have;

    part = part < length ? part : length;
    memcpy (seal->tag + seal->have, data, part);
    seal->have += (unsigned)part;
    if (seal->have < PTL_SEAL_BYTES)
        return part;
    if (ptl_seal_prove (seal))
        end_payload (conn);
    else
        misbehaved (conn, EBADMSG);
    return part;
}

static size_t take_payload (struct ptl_conn *conn, const uint8_t *data,
                            size_t length)
{
    size_t room;
    uint8_t *to;

    if (is_gathered (conn) && !conn->gather)
        return take_gathered (conn, data, length);
    to = place (conn, &room);
    room = room < length ? room : length;
    if (to)
        memcpy (to, data, room);
    advance (conn, data, room);
    return room;
}

static size_t take_header (struct ptl_conn *conn, const uint8_t *data,
                           size_t length)
{
    unsigned whole = PTL_HEADER_BYTES + (conn->seal ? PTL_SEAL_BYTES : 0);
    size_t part = whole - conn->header_have;

    part = part < length ? part : length;
    memcpy (conn->header + conn->header_have, data, part);
    conn->header_have += (unsigned)part;
    if (conn->header_have == whole) {
        conn->header_have = 0;
        take_frame (conn);
    }
    return part;
}

static void take_staged (struct ptl_conn *conn, size_t length)
{
    const uint8_t *data = conn->end->staging;
    size_t n;

    while (length > 0 && conn->state == PTL_CONN_READY) {
        if (conn->payload_left > 0)
            n = take_payload (conn, data, length);
        else if (conn->seal && conn->seal->is_due)
            n = take_seal (conn, data, length);
        else
            n = take_header (conn, data, length);
        data += n;
        length -= n;
    }
}

/* How much to read behind what is posted. Of a stream of large payloads only
 * the header, so that the next one lands where it belongs: a system call costs
 * less than to copy so much once more. */
static size_t staging_for (const struct ptl_conn *conn, size_t room)
{
    if (room >= LARGE_BYTES)
        return 0;
    if (ptl_near_is_in (conn))
        return PTL_NEAR_STAGING_BYTES;
    if (room == 0 && conn->payload_left == 0 && !conn->seal
        && conn->frame.length >= LARGE_BYTES)
        return PTL_HEADER_BYTES - conn->header_have;
    return PTL_STAGING_BYTES;
}

/* One read. False: no more now. */
static bool read_once (struct ptl_conn *conn)
{
    struct ptl_end *end = conn->end;
    struct iovec iov[2];
    size_t room = 0, staging, wanted;
    int count = 0;
    uint8_t *to = conn->state == PTL_CONN_READY ? place (conn, &room) : NULL;
    ssize_t n;

    if (to)
        iov[count++] = (struct iovec){ to, room };
    else
        room = 0;
    staging = staging_for (conn, room);
    if (staging > 0)
        iov[count++] = (struct iovec){ end->staging, staging };
    wanted = room + staging;
    n = ptl_conn_receive (conn, iov, count);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return false;
    if (n < 0 && errno == EPROTO) {
        misbehaved (conn, errno);
        return false;
    }
    if (n <= 0) {
        ptl_conn_fail (conn, PTLX_LOSS_DIED, n < 0 ? errno : 0);
        return false;
    }
    ptl_end_look_at_clock (end);
    conn->heard_ms = end->now_ms;
    end->counters.bytes_in += (uint64_t)n;
    end->budget_bytes -= n;
    if (to)
        advance (conn, to, (size_t)n < room ? (size_t)n : room);
    if ((size_t)n > room)
        take_staged (conn, (size_t)n - room);
    return (size_t)n == wanted && conn->state != PTL_CONN_DEAD;
}

void ptl_conn_read_all (struct ptl_conn *conn)
{
    struct ptl_end *end = conn->end;
    uint64_t most = UINT64_MAX; /* what comes later than this call is not due */
    int waiting;

    if (ptl_near_is_in (conn))
        most = end->counters.bytes_in + conn->near->shm.in.size;
    else if (ioctl (conn->source.fd, FIONREAD, &waiting) == 0)
        most = end->counters.bytes_in + (uint64_t)waiting + 1; /* the end */
    while (conn->state == PTL_CONN_READY && end->counters.bytes_in < most
           && read_once (conn))
        ;
}

void ptl_conn_read (struct ptl_conn *conn)
{
    struct ptl_end *end = conn->end;

    while (end->budget_bytes > 0 && end->budget_frames > 0)
        if (!read_once (conn))
            return;
}
