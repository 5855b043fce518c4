/* ptl_wire.h - the frame header (native/wire/FRAMES.md).
 *
 * Every frame is a header of 64 bytes and at most PTL_PAYLOAD_MAX bytes of
 * payload. Pure: bytes in, fields out.
 */
#ifndef PTL_WIRE_H
#define PTL_WIRE_H

#include <stdint.h>

#define PTL_HEADER_BYTES 64
#define PTL_PAYLOAD_MAX (256u * 1024)
#define PTL_MESSAGE_MOST (UINT64_C (1) << 48)
#define PTL_ATOMIC_MOST (64u * 1024) /* one frame, operand included */
#define PTL_VOLATILE_USUAL 4096u     /* bytes that are copied at the call */
#define PTL_PT_MOST 256              /* the index has one byte */
#define PTL_OPEN_MAX 8      /* operations in fragments, per peer, direction */
#define PTL_UNACKED_MAX 512 /* operations that await their ack, likewise */
#define PTL_VERSION_MIN 1
#define PTL_VERSION_MAX 1

enum ptl_frame_type {
    PTL_FRAME_PUT = 1,
    PTL_FRAME_GET = 2,    /* reserved */
    PTL_FRAME_ATOMIC = 3, /* reserved */
    PTL_FRAME_FETCH = 4,  /* reserved */
    PTL_FRAME_ACK = 5,
    PTL_FRAME_REPLY = 6, /* reserved */
    PTL_FRAME_PING = 7,
    PTL_FRAME_PONG = 8,
    PTL_FRAME_BYE = 9,
    PTL_FRAME_MEMORY = 10 /* ptl_near.h */
};

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
    PTL_FLAG_INTEGRITY = 1 << 4, /* a MAC follows; not offered yet */
};
#define PTL_FLAGS_KNOWN                                                 \
    (PTL_FLAG_FIRST | PTL_FLAG_LAST | PTL_FLAG_RETRY | PTL_FLAG_RESEND)

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
    uint16_t flags, operation, datatype;
    uint32_t length; /* of the payload */
    uint32_t incarnation; /* low half of the sender's */
    uint32_t op_index, op_generation, fragment;
    uint64_t total; /* PUT: of the operation; ACK: accepted */
    uint64_t match_bits, offset, hdr_data;
};

void ptl_wire_encode (const struct ptl_frame *frame,
                      uint8_t out[PTL_HEADER_BYTES]);

/* Take a header apart and hold it to the limits that need no context.
 *   PTL_OK
 *   PTL_FAIL  unknown type, version, flag, lane or kind; a length too large
 */
int ptl_wire_decode (const uint8_t in[PTL_HEADER_BYTES],
                     struct ptl_frame *frame);

#endif
