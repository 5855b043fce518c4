#include "ptl_answer.h"

#include <errno.h>
#include <stdlib.h>

#define ACKS_WAITING 16 /* acks of one connection */
#define SMALL_FIRST 512
#define SMALL_MOST (2 * PTL_UNACKED_MAX) /* answers that wait */

/* The endpoint keeps one small buffer for the next connection that needs it. */
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

uint8_t *ptl_answer_reserve (struct ptl_conn *conn,
                             const struct ptl_frame *frame)
{
    uint8_t *to = queue (conn, frame);

    if (to)
        ptl_conn_kick (conn);
    return to;
}

void ptl_answer_send (struct ptl_conn *conn, const struct ptl_frame *frame)
{
    ptl_answer_reserve (conn, frame);
}

/* When acks are sent that nothing else takes along. The moments are the same
 * for all connections, so that one turn sends what all of them owe. */
static int64_t when_due (const struct ptl_end *end)
{
    int64_t most = end->config.ack_delay_ms, step = most / 2;

    return step > 0 ? (end->now_ms / step + 2) * step : end->now_ms + most;
}

void ptl_answer_ack (struct ptl_conn *conn, const struct ptl_frame *frame)
{
    struct ptl_end *end = conn->end;

    if (!queue (conn, frame))
        return;
    if (end->config.ack_delay_ms == 0
        || conn->small_length > ACKS_WAITING * PTL_HEADER_BYTES) {
        ptl_conn_kick (conn);
    } else if (conn->ack_ms == 0) {
        conn->ack_ms = when_due (end);
        ptl_conn_due (conn, conn->ack_ms);
    }
}

void ptl_answer_tick (struct ptl_conn *conn)
{
    if (conn->ack_ms > conn->end->now_ms) {
        ptl_conn_due (conn, conn->ack_ms);
        return;
    }
    conn->ack_ms = 0;
    if (conn->small_length > 0)
        ptl_conn_kick (conn);
}

void ptl_answer_clear (struct ptl_conn *conn)
{
    if (conn->small_room == SMALL_FIRST && !conn->end->spare_small)
        conn->end->spare_small = conn->small;
    else
        free (conn->small);
    conn->small = NULL;
    conn->small_length = conn->small_room = conn->n_small = 0;
}
