#include "ptl_batch.h"

#include <string.h>

#include "ptl_answer.h"
#include "ptl_lane.h"
#include "ptl_op.h"

#define BATCH_BYTES (1024 * 1024)

static void add (struct ptl_batch *batch, struct ptl_op *op, uint64_t at,
                 size_t length, bool is_last)
{
    batch->parts[batch->n++]
        = (struct ptl_part){ op, at, length, false, is_last };
    batch->bytes += length;
}

/* `length` bytes of the flat buffer, just written; `op` is sent with them. */
static void add_flat (struct ptl_batch *batch, size_t length, struct ptl_op *op)
{
    batch->parts[batch->n++]
        = (struct ptl_part){ op, batch->used, length, true, op != NULL };
    batch->used += length;
    batch->bytes += length;
}

/* Append the MAC of a header that was just written. Returns the length of
 * both. */
static size_t seal_header (struct ptl_seal *seal, uint8_t *header)
{
    if (!seal)
        return PTL_HEADER_BYTES;
    ptl_seal_bytes (seal, header, PTL_HEADER_BYTES,
                    header + PTL_HEADER_BYTES);
    return PTL_HEADER_BYTES + PTL_SEAL_BYTES;
}

/* Append the MAC of a payload in one piece. Returns the length of the MAC. */
static size_t seal_payload (struct ptl_seal *seal, uint8_t *payload,
                            size_t length)
{
    if (!seal || length == 0)
        return 0;
    ptl_seal_bytes (seal, payload, length, payload + length);
    return PTL_SEAL_BYTES;
}

/* Append the MAC of an operand and of data that is sent from where it lies. */
static void seal_data (struct ptl_batch *batch, struct ptl_seal *seal,
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

static void add_frame (struct ptl_batch *batch, struct ptl_conn *conn,
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
    if (data <= PTL_INLINE_BYTES || (seal && op->type == PTL_FRAME_REPLY)) {
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

#define SEALED_FRAME_MOST                                               \
    (PTL_HEADER_BYTES + PTL_SEALED_REPLY_MOST + 2 * PTL_SEAL_BYTES)
#define PARTS_OF_FRAME 3

/* Add answers with their MACs, as many as fit. False: not all did. */
static bool add_sealed (struct ptl_batch *batch, struct ptl_conn *conn)
{
    uint32_t from = 0, length;
    uint8_t *to, *small = conn->small;
    size_t begin = batch->used, used = begin;

    while (from < conn->small_length
           && used + PTL_FRAME_MOST <= PTL_FLAT_BYTES) {
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
        ptl_answer_clear (conn);
        return true;
    }
    memmove (small, small + from, conn->small_length - from);
    conn->small_length -= from;
    return false;
}

/* Add the answers. False: not all fitted. */
static bool add_small (struct ptl_batch *batch, struct ptl_conn *conn)
{
    if (conn->small_length == 0)
        return true;
    if (conn->seal)
        return add_sealed (batch, conn);
    memcpy (batch->flat, conn->small, conn->small_length);
    add_flat (batch, conn->small_length, NULL);
    ptl_answer_clear (conn);
    return true;
}

/* Not done by an initialiser, which would clear all parts. */
static void clear (struct ptl_conn *conn, struct ptl_batch *batch)
{
    batch->flat = conn->end->flat;
    batch->used = batch->bytes = 0;
    batch->n = 0;
    batch->is_all = true;
}

void ptl_batch_fill (struct ptl_conn *conn, struct ptl_batch *batch)
{
    size_t most = conn->seal ? SEALED_FRAME_MOST : PTL_FRAME_MOST;
    struct ptl_op *op;

    clear (conn, batch);
    batch->is_all = add_small (batch, conn);
    while (batch->is_all && conn->peer && (op = ptl_lane_pick (conn->peer))) {
        if (batch->n + PARTS_OF_FRAME > PTL_BATCH_PARTS
            || batch->bytes >= BATCH_BYTES
            || batch->used + most > PTL_FLAT_BYTES) {
            batch->is_all = false;
            return;
        }
        add_frame (batch, conn, op);
    }
}

void ptl_batch_fill_one (struct ptl_conn *conn, struct ptl_batch *batch,
                         struct ptl_op *op)
{
    clear (conn, batch);
    add_frame (batch, conn, op);
}
