#include "ptl_in.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "ptl_dispatch.h"
#include "ptl_mem.h"
#include "ptl_near.h"
#include "ptl_op.h"
#include "ptl_seal.h"

#define LARGE_BYTES (16 * 1024) /* payloads that are not copied */

static void misbehaved (struct ptl_conn *conn, int detail)
{
    ptl_conn_fail (conn, PTLX_LOSS_MISBEHAVED, detail);
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
    if (!op->get_mem) /* nobody wants it any more */
        return NULL;
    return ptl_mem_span (op->get_mem, op->get_at + op->position, room);
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

static void end_gathered (struct ptl_conn *conn)
{
    uint8_t *payload = conn->gather;

    if (!payload)
        return;
    conn->gather = NULL;
    ptl_dispatch_atomic (conn, payload);
    free (payload);
}

static void end_payload (struct ptl_conn *conn)
{
    if (conn->rx || conn->reply)
        ptl_dispatch_payload (conn);
    else
        end_gathered (conn);
}

/* `n` payload bytes have been put where they belong; they are also at
 * `data`. */
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

static bool is_gathered (const struct ptl_conn *conn)
{
    return conn->frame.type == PTL_FRAME_ATOMIC
        || conn->frame.type == PTL_FRAME_FETCH;
}

/* Take bytes of an atomic operation's payload. Returns how many. */
static size_t take_gathered (struct ptl_conn *conn, const uint8_t *data,
                             size_t length)
{
    uint32_t whole = conn->frame.length, have = whole - conn->payload_left;
    size_t n = conn->payload_left < length ? conn->payload_left : length;

    if (n == whole && !conn->seal) {
        conn->payload_left = 0;
        ptl_dispatch_atomic (conn, data);
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

/* ---- reading ---- */

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
        ptl_dispatch_header (conn);
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

/* How many bytes to read into staging behind the posted buffer. In a stream of
 * large payloads only the next header is read, so that its payload can be read
 * to where it belongs: the extra system call costs less than a second copy. */
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

void ptl_in_read_all (struct ptl_conn *conn)
{
    struct ptl_end *end = conn->end;
    uint64_t most = UINT64_MAX; /* do not wait for bytes that come later */
    int waiting;

    if (ptl_near_is_in (conn))
        most = end->counters.bytes_in + conn->near->shm.in.size;
    else if (ioctl (conn->source.fd, FIONREAD, &waiting) == 0)
        most = end->counters.bytes_in + (uint64_t)waiting + 1; /* the end */
    while (conn->state == PTL_CONN_READY && end->counters.bytes_in < most
           && read_once (conn))
        ;
}

void ptl_in_read (struct ptl_conn *conn)
{
    struct ptl_end *end = conn->end;

    while (end->budget_bytes > 0 && end->budget_frames > 0)
        if (!read_once (conn))
            return;
}
