/* frames_said.h - steps of fuzz_frames.c: what an attacker sends, well-formed,
 * with fields changed, in part, or any bytes.
 */
#ifndef FRAMES_SAID_H
#define FRAMES_SAID_H

#include "frames_attacker.h"

/* The next fragment of a slot, or a whole put: as FRAMES.md allows. */
static inline void step_allowed (struct world *w, size_t most)
{
    uint8_t what = take8 (&w->in), where = take8 (&w->in);
    struct begun *op = &w->now->begun[what % OPS];
    struct ptl_frame frame = {
        .type = PTL_FRAME_PUT,
        .op_index = what % OPS,
        .lane = (uint8_t)(where >> 6) % PTL_LANES,
        .pt_index = where % 6,
        .detail = where / 6 % 4,
        .match_bits = what & 8 ? 3 : 0,
        .flags = what & 16 ? PTL_FLAG_RETRY : 0,
        .length = (uint32_t)size_of (take8 (&w->in)) % (PTL_PAYLOAD_MAX + 1),
    };

    if (what & 32)
        frame.flags |= PTL_FLAG_RESEND;
    if (op->fragment > 0) {
        frame.length += frame.length == 0;
        frame.lane = op->lane;
        frame.pt_index = op->pt_index;
        frame.fragment = op->fragment++;
        frame.offset = op->received;
        if (frame.length >= op->total - op->received)
            frame.length = (uint32_t)(op->total - op->received);
        frame.total = op->total;
    }
    else if (what & 64) {
        frame.length += frame.length == 0;
        frame.offset = size_of (take8 (&w->in));
        frame.total = size_of (take8 (&w->in)) % LARGE_BYTES;
        frame.total += frame.length + 1;
        frame.flags |= PTL_FLAG_FIRST;
        *op = (struct begun){ 1, 0, frame.total, frame.lane, frame.pt_index };
    }
    else {
        frame.offset = size_of (take8 (&w->in));
        frame.flags |= PTL_FLAG_FIRST | PTL_FLAG_LAST;
        frame.total = frame.length;
    }
    if (op->fragment > 0) {
        op->received += frame.length;
        if (op->received == op->total) {
            frame.flags |= PTL_FLAG_LAST;
            op->fragment = 0;
        }
    }
    put_frame (w, &frame, most);
}

/* The next chunk of the object, or what looks like it. */
static inline void step_chunk (struct world *w)
{
    uint8_t chunk = take8 (&w->in), length = take8 (&w->in);
    struct ptl_frame frame = {
        .type = PTL_FRAME_PUT,
        .flags = PTL_FLAG_FIRST | PTL_FLAG_LAST,
        .lane = PTL_LANE_BULK,
        .pt_index = 1,
        .detail = PTL_ACK_REQ,
        .length = length ? (uint32_t)size_of (length) % PTL_PAYLOAD_MAX
                         : CHUNK_BYTES,
        .match_bits = OBJECT_BITS,
        .offset = (uint64_t)chunk * CHUNK_BYTES,
    };

    frame.total = frame.length;
    put_frame (w, &frame, SIZE_MAX);
}

/* Every field as the input says. */
static inline void step_any (struct world *w)
{
    uint8_t type = take8 (&w->in);
    struct ptl_frame frame = {
        .type = type < 128 ? PTL_FRAME_PUT : type % 12,
        .flags = take8 (&w->in) & 0x1f,
        .lane = take8 (&w->in) & 3,
        .pt_index = take8 (&w->in) % 66,
        .detail = take8 (&w->in) % 10,
        .op_index = take8 (&w->in),
        .op_generation = take8 (&w->in),
        .length = (uint32_t)size_of (take8 (&w->in)),
        .total = size_of (take8 (&w->in)),
        .fragment = take8 (&w->in),
        .match_bits = take8 (&w->in),
        .offset = size_of (take8 (&w->in)),
    };
    uint8_t rest = take8 (&w->in);

    frame.incarnation = rest == 1;
    frame.kind = rest == 2;
    frame.operation = rest == 3;
    frame.datatype = rest == 4;
    put_frame (w, &frame, rest & 128 ? take8 (&w->in) : SIZE_MAX);
}

static inline void step_ack (struct world *w)
{
    uint8_t which = take8 (&w->in), detail = take8 (&w->in);
    const struct seen *seen = &w->now->seen[which % SEEN];
    struct ptl_frame frame = {
        .type = PTL_FRAME_ACK,
        .detail = detail % 10,
        .op_index = seen->index,
        .op_generation = seen->generation + (which & 64 ? 1 : 0),
        .total = which & 128 ? size_of (take8 (&w->in)) : seen->length,
    };

    put_frame (w, &frame, 0);
}

/* The next fragment of an answer, or what looks like it. */
static inline void step_reply (struct world *w)
{
    uint8_t which = take8 (&w->in), detail = take8 (&w->in);
    struct seen *seen = &w->now->seen[which % SEEN];
    uint64_t length = size_of (take8 (&w->in)), left;
    struct ptl_frame frame = {
        .type = PTL_FRAME_REPLY,
        .detail = detail & 128 ? detail % 10 : PTL_NI_OK,
        .op_index = seen->index,
        .op_generation = seen->generation + (which & 64 ? 1 : 0),
        .fragment = seen->fragment,
        .offset = seen->replied,
        .total = seen->length,
    };

    if (which & 128)
        frame.total = length;
    left = frame.total - seen->replied;
    if (length > left && !(which & 32))
        length = left;
    frame.length = (uint32_t)(length % (PTL_PAYLOAD_MAX + 1));
    frame.flags = (uint16_t)((seen->fragment == 0 ? PTL_FLAG_FIRST : 0)
                             | (frame.length == left ? PTL_FLAG_LAST : 0));
    seen->fragment++;
    seen->replied += frame.length;
    put_frame (w, &frame, SIZE_MAX);
}

/* A get, an atomic operation, a fetch or a swap. */
static inline void step_operation (struct world *w)
{
    static const uint8_t types[]
        = { PTL_FRAME_GET, PTL_FRAME_ATOMIC, PTL_FRAME_FETCH };
    uint8_t what = take8 (&w->in), how = take8 (&w->in);
    struct ptl_frame frame = {
        .type = types[what % 3],
        .flags = PTL_FLAG_FIRST | PTL_FLAG_LAST,
        .lane = PTL_LANE_DATA,
        .pt_index = what / 3 % 6,
        .kind = what / 18 % 16 == 13 ? 3 : 0,
        .operation = how % 20,
        .datatype = take8 (&w->in) % 16,
        .match_bits = 3,
        .op_index = what,
        .total = size_of (take8 (&w->in)),
        .offset = size_of (take8 (&w->in)),
    };

    if (frame.type == PTL_FRAME_GET)
        frame.operation = frame.datatype = 0;
    else
        frame.length = (uint32_t)frame.total + how / 20;
    frame.detail = frame.type == PTL_FRAME_ATOMIC ? how % 4 : 0;
    put_frame (w, &frame, SIZE_MAX);
}

/* A header byte for byte, as in FRAMES.md; the incarnation is put right. */
static inline void step_header (struct world *w)
{
    uint8_t header[PTL_HEADER_BYTES];
    uint32_t length;

    take_bytes (&w->in, header, sizeof (header));
    for (int i = 0; i < 4; i++)
        header[12 + i] = (uint8_t)(w->now->incarnation >> 8 * i);
    memcpy (&length, header + 8, sizeof (length));
    put_bytes (w, header, sizeof (header));
    put_bytes (w, payload,
               length < sizeof (payload) ? length : sizeof (payload));
}

static inline void step_bytes (struct world *w)
{
    uint8_t bytes[255];
    size_t n = take_bytes (&w->in, bytes, take8 (&w->in));

    put_bytes (w, bytes, n);
}

static inline void step_small (struct world *w)
{
    struct ptl_frame frame = {
        .type = (uint8_t)(PTL_FRAME_PING + take8 (&w->in) % 3)
    };

    put_frame (w, &frame, 0);
}

#endif
