/* ptl_wire.h - the frame header (native/wire/FRAMES.md).
 *
 * Every frame is a header of 64 bytes and at most PTL_PAYLOAD_MAX bytes of
 * payload. Pure: bytes in, fields out.
 */
#ifndef PTL_WIRE_H
#define PTL_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "ptl_bytes.h"

#define PTL_HEADER_BYTES 64
#define PTL_PAYLOAD_MAX (256u * 1024)
#define PTL_MESSAGE_MOST (UINT64_C (1) << 48)
#define PTL_ATOMIC_MOST (64u * 1024) /* one frame */
#define PTL_OPERAND_MOST 32u         /* bytes before the data of a FETCH */
#define PTL_VOLATILE_USUAL 4096u     /* bytes that are copied at the call */
#define PTL_PT_MOST 256              /* the index has one byte */
#define PTL_OPEN_MAX 8      /* operations in fragments, per peer, direction */
#define PTL_UNACKED_MAX 512 /* operations that await their answer, likewise */
#define PTL_FETCHING_MAX (1u << 20) /* bytes of FETCHes that await it */
#define PTL_REPLY_COPIED 1024u /* bytes of a GET that are taken at once */
#define PTL_VERSION_MIN 1
#define PTL_VERSION_MAX 1

enum ptl_frame_type {
    PTL_FRAME_PUT = 1,
    PTL_FRAME_GET = 2,
    PTL_FRAME_ATOMIC = 3,
    PTL_FRAME_FETCH = 4,
    PTL_FRAME_ACK = 5,
    PTL_FRAME_REPLY = 6,
    PTL_FRAME_PING = 7,
    PTL_FRAME_PONG = 8,
    PTL_FRAME_BYE = 9,
    PTL_FRAME_MEMORY = 10 /* ptl_near.h */
};

#define PTL_PING_PART 1 /* `detail` of a PING that asks to part (ptl_room.h) */

/* What a MEMORY frame says, in `detail`. */
enum ptl_memory_step {
    PTL_MEMORY_OFFER = 1, /* descriptors come with it; total: of one ring */
    PTL_MEMORY_TAKEN = 2, /* the dialler goes on in its ring */
    PTL_MEMORY_REFUSED = 3,
    PTL_MEMORY_SWITCH = 4 /* the listener goes on in its ring */
};

enum ptl_frame_flag {
    PTL_FLAG_FIRST = 1 << 0,     /* first fragment: matched */
    PTL_FLAG_LAST = 1 << 1,      /* last fragment */
    PTL_FLAG_RETRY = 1 << 2,     /* refused again until a RESEND comes */
    PTL_FLAG_RESEND = 1 << 3,    /* first of those that are sent again */
    PTL_FLAG_INTEGRITY = 1 << 4, /* MACs follow; not in ptl_frame.flags */
};
#define PTL_FLAGS_KNOWN                                                 \
    (PTL_FLAG_FIRST | PTL_FLAG_LAST | PTL_FLAG_RETRY | PTL_FLAG_RESEND)

/* Result in an ACK beyond ptl_ni_fail_t: it went well, but the entry forbids to
 * tell the initiator. */
#define PTL_ACK_SILENT 8

enum ptl_lane {
    PTL_LANE_CONTROL = 0, /* messages */
    PTL_LANE_DATA = 1,    /* puts of the interface's user */
    PTL_LANE_BULK = 2,    /* objects: strictly one after the other */
    PTL_LANES = 3
};

/* Kind of interface: 0 is matching and physical. */
enum ptl_ni_kind {
    PTL_KIND_LOGICAL = 1,
    PTL_KIND_NO_MATCHING = 2,
    PTL_KINDS = 4
};

struct ptl_frame {
    uint8_t type, kind, lane, pt_index, detail;
    bool is_sealed; /* PTL_FLAG_INTEGRITY */
    uint16_t flags, operation, datatype;
    uint32_t length; /* of the payload */
    uint32_t incarnation; /* low half of the sender's */
    uint32_t op_index, op_generation, fragment;
    uint64_t total; /* of the operation; ACK, REPLY: accepted, given */
    uint64_t match_bits, offset, hdr_data;
};

/* Inline, so that constant fields are written directly. */
static inline void ptl_wire_encode (const struct ptl_frame *frame,
                                    uint8_t out[PTL_HEADER_BYTES])
{
    out[0] = frame->type;
    out[1] = PTL_VERSION_MAX;
    ptl_put16 (out + 2,
               (uint16_t)(frame->flags
                          | (frame->is_sealed ? PTL_FLAG_INTEGRITY : 0)));
    out[4] = frame->kind;
    out[5] = frame->lane;
    out[6] = frame->pt_index;
    out[7] = frame->detail;
    ptl_put32 (out + 8, frame->length);
    ptl_put32 (out + 12, frame->incarnation);
    ptl_put32 (out + 16, frame->op_index);
    ptl_put32 (out + 20, frame->op_generation);
    ptl_put16 (out + 24, frame->operation);
    ptl_put16 (out + 26, frame->datatype);
    ptl_put32 (out + 28, frame->fragment);
    ptl_put64 (out + 32, frame->total);
    ptl_put64 (out + 40, frame->match_bits);
    ptl_put64 (out + 48, frame->offset);
    ptl_put64 (out + 56, frame->hdr_data);
}

/* Decode a header and check all that needs no context: types, ranges of their
 * fields, lengths that fit one another, an operation that goes with its data
 * type.
 *
 * PTL_OK, PTL_FAIL
 */
int ptl_wire_decode (const uint8_t in[PTL_HEADER_BYTES],
                     struct ptl_frame *frame);

/* Bytes of a FETCH's operand, which precede its data. */
uint32_t ptl_wire_operand (unsigned operation, unsigned datatype);

#endif
