/* ptl_in.c - frames out of the socket.
 *
 * One recvmsg fills the rest of the posted buffer and then the interface's
 * staging: small payloads are copied out of staging, of a large one only what
 * arrived with its header. Whatever a peer sends that FRAMES.md does not
 * allow cuts that peer off, and no one else.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ptl_conn.h"
#include "ptl_lane.h"
#include "ptl_me.h"
#include "ptl_near.h"
#include "ptl_peer.h"

#define ACK_AT_ONCE_BYTES (64 * 1024) /* larger: its sender holds much for us */

static void misbehaved (struct ptl_conn *conn, int detail)
{
    ptl_conn_fail (conn, PTLX_LOSS_MISBEHAVED, detail);
}

static void acknowledge (struct ptl_conn *conn, const struct ptl_rx *rx)
{
    struct ptl_frame ack = {
        .type = PTL_FRAME_ACK,
        .lane = rx->lane,
        .pt_index = rx->pt_index,
        .detail = (uint8_t)rx->fail,
        .op_index = rx->op_index,
        .op_generation = rx->op_generation,
        .total = rx->mlength,
        .offset = rx->offset,
    };

    /* Who puts through Portals, or sends an object, waits for the ack. */
    if (rx->lane == PTL_LANE_CONTROL && rx->fail == PTL_NI_OK
        && rx->mlength <= ACK_AT_ONCE_BYTES)
        ptl_conn_ack (conn, &ack);
    else
        ptl_conn_small (conn, &ack);
}

/* The last byte of an operation is here. */
static void finish (struct ptl_conn *conn, struct ptl_rx *rx)
{
    bool wants_ack = rx->ack != PTL_NO_ACK_REQ;

    if (rx->me && (rx->me->me.options & PTL_ME_ACK_DISABLE)
        && rx->fail == PTL_NI_OK && !rx->me->owner)
        wants_ack = false;
    ptl_pt_end (&conn->who, rx, rx->fail);
    if (wants_ack)
        acknowledge (conn, rx);
}

/* Has a refusal on this entry still to be answered by a RESEND? */
static bool is_out_of_turn (struct ptl_conn *conn, const struct ptl_frame *f)
{
    uint64_t bit = UINT64_C (1) << f->pt_index;

    if (f->flags & PTL_FLAG_RESEND)
        conn->refused &= ~bit;
    return (f->flags & PTL_FLAG_RETRY) && (conn->refused & bit);
}

static void begin (struct ptl_conn *conn, struct ptl_rx *rx)
{
    const struct ptl_frame *f = &conn->frame;
    bool out_of_turn = is_out_of_turn (conn, f);
    struct ptl_frame refused = *f;

    if (out_of_turn) {
        /* An entry that is not there refuses without side effects. */
        memset (rx, 0, sizeof (*rx));
        rx->op_index = refused.op_index;
        rx->op_generation = refused.op_generation;
        rx->length = refused.total;
        rx->pt_index = refused.pt_index;
        rx->ack = refused.detail;
        rx->lane = refused.lane;
        rx->fail = PTL_NI_PT_DISABLED;
    }
    else {
        ptl_pt_begin (conn->end, &conn->who, f, rx);
    }
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
    const struct ptl_frame *f = &conn->frame;
    bool is_whole = f->flags & PTL_FLAG_LAST;

    if (f->fragment != 0 || f->length > f->total
        || is_whole != (f->length == f->total)
        || (!is_whole && f->length == 0) || f->total > UINT64_C (1) << 48)
        return false;
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
    uint64_t left;

    if (!rx)
        return false;
    left = rx->length - rx->received;
    if (f->fragment != rx->next_fragment || f->offset != rx->received
        || f->length == 0 || f->length > left
        || !(f->flags & PTL_FLAG_LAST) != (f->length < left))
        return false;
    conn->rx = rx;
    return true;
}

/* All of a frame's payload has arrived. */
static void end_payload (struct ptl_conn *conn)
{
    struct ptl_rx *rx = conn->rx;

    conn->rx = NULL;
    if (!rx)
        return;
    rx->next_fragment++;
    if (rx->received == rx->length)
        finish (conn, rx);
}

static void take_put (struct ptl_conn *conn)
{
    bool is_first = conn->frame.flags & PTL_FLAG_FIRST;

    if (!(is_first ? take_first (conn) : take_next (conn))) {
        misbehaved (conn, EPROTO);
        return;
    }
    conn->payload_left = conn->frame.length;
    if (conn->payload_left == 0)
        end_payload (conn);
}

static void take_pong (struct ptl_conn *conn)
{
    if (!conn->is_pinged) {
        misbehaved (conn, EPROTO);
        return;
    }
    conn->is_pinged = false;
}

static void take_frame (struct ptl_conn *conn)
{
    struct ptl_frame pong = { .type = PTL_FRAME_PONG };

    conn->end->counters.frames_in++;
    conn->end->budget_frames--;
    if (ptl_wire_decode (conn->header, &conn->frame) != PTL_OK
        || conn->frame.incarnation != (uint32_t)conn->incarnation) {
        misbehaved (conn, EBADMSG);
        return;
    }
    switch (conn->frame.type) {
    case PTL_FRAME_PUT:
        take_put (conn);
        break;
    case PTL_FRAME_ACK:
        if (ptl_lane_ack (conn->peer, &conn->frame) != PTL_OK)
            misbehaved (conn, EPROTO);
        break;
    case PTL_FRAME_PING:
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
        ptl_conn_fail (conn, PTLX_LOSS_CLOSED, 0);
    }
}

/* Where the next payload bytes go; NULL: nowhere (refused or truncated). */
static uint8_t *place (const struct ptl_conn *conn, size_t *room)
{
    const struct ptl_rx *rx = conn->rx;

    if (conn->payload_left == 0 || !rx->me || rx->received >= rx->mlength) {
        *room = conn->payload_left;
        return NULL;
    }
    *room = rx->mlength - rx->received;
    if (*room > conn->payload_left)
        *room = conn->payload_left;
    return rx->start + rx->received;
}

/* `n` payload bytes are where they belong. */
static void advance (struct ptl_conn *conn, size_t n)
{
    conn->rx->received += n;
    conn->payload_left -= (uint32_t)n;
    if (conn->payload_left == 0)
        end_payload (conn);
}

static size_t take_payload (struct ptl_conn *conn, const uint8_t *data,
                            size_t length)
{
    size_t room;
    uint8_t *to = place (conn, &room);

    room = room < length ? room : length;
    if (to)
        memcpy (to, data, room);
    advance (conn, room);
    return room;
}

static size_t take_header (struct ptl_conn *conn, const uint8_t *data,
                           size_t length)
{
    size_t part = PTL_HEADER_BYTES - conn->header_have;

    part = part < length ? part : length;
    memcpy (conn->header + conn->header_have, data, part);
    conn->header_have += (unsigned)part;
    if (conn->header_have == PTL_HEADER_BYTES) {
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
        n = conn->payload_left > 0 ? take_payload (conn, data, length)
                                   : take_header (conn, data, length);
        data += n;
        length -= n;
    }
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
    staging = ptl_near_is_in (conn) ? PTL_NEAR_STAGING_BYTES
                                    : PTL_STAGING_BYTES;
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
    conn->heard_ms = end->now_ms;
    end->counters.bytes_in += (uint64_t)n;
    end->budget_bytes -= n;
    if (to)
        advance (conn, (size_t)n < room ? (size_t)n : room);
    if ((size_t)n > room)
        take_staged (conn, (size_t)n - room);
    return (size_t)n == wanted && conn->state != PTL_CONN_DEAD;
}

void ptl_conn_read_all (struct ptl_conn *conn)
{
    struct ptl_end *end = conn->end;
    uint64_t most = UINT64_MAX; /* what comes later than this call is not due */

    if (ptl_near_is_in (conn))
        most = end->counters.bytes_in + conn->near->shm.in.size;
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
