/* FRAMES.md 3: per type a header that is allowed, then one wrong field at a
 * time; then a million random headers, of which whatever is taken is within
 * the limits and is encoded as it came. */
#include "harness.h"
#include "ptl_wire.h"

#define WHOLE (PTL_FLAG_FIRST | PTL_FLAG_LAST)

static int decode (const struct ptl_frame *frame)
{
    struct ptl_frame taken;
    uint8_t bytes[PTL_HEADER_BYTES];

    ptl_wire_encode (frame, bytes);
    return ptl_wire_decode (bytes, &taken);
}

static int decode_byte (size_t at, uint8_t value)
{
    struct ptl_frame frame = { .type = PTL_FRAME_PUT, .flags = WHOLE };
    uint8_t bytes[PTL_HEADER_BYTES];

    ptl_wire_encode (&frame, bytes);
    bytes[at] = value;
    return ptl_wire_decode (bytes, &frame);
}

/* Allowed as it is, refused with one field changed. */
#define WRONG(good, field, value)                                       \
    do {                                                                \
        struct ptl_frame bad = good;                                    \
                                                                        \
        CHECK (decode (&good) == PTL_OK);                               \
        bad.field = value;                                              \
        CHECK (decode (&bad) == PTL_FAIL);                              \
    } while (0)

static void general (void)
{
    CHECK (decode_byte (1, PTL_VERSION_MAX) == PTL_OK);
    CHECK (decode_byte (0, 0) == PTL_FAIL); /* type 0 */
    CHECK (decode_byte (0, 200) == PTL_FAIL);
    CHECK (decode_byte (1, 99) == PTL_FAIL); /* version */
    CHECK (decode_byte (3, 1) == PTL_FAIL);  /* unknown flag */
    CHECK (decode_byte (4, 4) == PTL_FAIL);  /* kind of interface */
    CHECK (decode_byte (4, 3) == PTL_OK);
    CHECK (decode_byte (5, PTL_LANES) == PTL_FAIL);
    CHECK (decode_byte (6, 255) == PTL_OK);   /* portal index */
    CHECK (decode_byte (11, 1) == PTL_FAIL);  /* 16 MB payload */
}

static void puts_ (void)
{
    struct ptl_frame whole = { .type = PTL_FRAME_PUT, .flags = WHOLE,
                               .length = 3, .total = 3 };
    struct ptl_frame first = { .type = PTL_FRAME_PUT,
                               .flags = PTL_FLAG_FIRST, .length = 3,
                               .total = 9, .offset = 1000 };
    struct ptl_frame next = { .type = PTL_FRAME_PUT, .length = 3,
                              .total = 9, .offset = 3, .fragment = 1 };
    struct ptl_frame last = { .type = PTL_FRAME_PUT, .flags = PTL_FLAG_LAST,
                              .length = 3, .total = 9, .offset = 6,
                              .fragment = 2 };
    struct ptl_frame retry = { .type = PTL_FRAME_PUT, .pt_index = 63,
                               .flags = WHOLE | PTL_FLAG_RETRY };

    WRONG (whole, detail, PTL_OC_ACK_REQ + 1);
    WRONG (whole, operation, 1);
    WRONG (whole, datatype, 1);
    WRONG (whole, fragment, 1);
    WRONG (whole, length, 4);
    WRONG (whole, length, 2); /* not the last, then */
    WRONG (whole, flags, PTL_FLAG_LAST);
    WRONG (whole, flags, WHOLE | PTL_FLAG_RESEND); /* of no retry */
    WRONG (first, total, PTL_MESSAGE_MOST + 1);
    WRONG (first, total, 3);
    WRONG (first, length, 0);
    WRONG (next, fragment, 0);
    WRONG (next, offset, 10);
    WRONG (next, offset, UINT64_MAX);
    WRONG (next, offset, 6); /* would be the last */
    WRONG (next, length, 0);
    WRONG (last, offset, 5);
    WRONG (retry, pt_index, 64);
}

static void gets (void)
{
    struct ptl_frame get = { .type = PTL_FRAME_GET, .flags = WHOLE,
                             .total = PTL_MESSAGE_MOST };
    struct ptl_frame reply = { .type = PTL_FRAME_REPLY, .flags = WHOLE,
                               .length = 8, .total = 8 };
    struct ptl_frame refusal = { .type = PTL_FRAME_REPLY, .flags = WHOLE,
                                 .detail = PTL_NI_DROPPED };

    WRONG (get, total, PTL_MESSAGE_MOST + 1);
    WRONG (get, length, 1);
    WRONG (get, detail, 1);
    WRONG (get, fragment, 1);
    WRONG (get, flags, PTL_FLAG_FIRST);
    WRONG (get, flags, WHOLE | PTL_FLAG_RETRY);
    WRONG (get, operation, 1);
    WRONG (reply, detail, PTL_NI_DROPPED); /* with data */
    WRONG (reply, length, 9);
    WRONG (reply, flags, WHOLE | PTL_FLAG_RETRY);
    WRONG (reply, datatype, 1);
    WRONG (refusal, detail, PTL_NI_SEGV + 1);
    WRONG (refusal, total, 1);
}

static void atomics (void)
{
    struct ptl_frame atomic = { .type = PTL_FRAME_ATOMIC, .flags = WHOLE,
                                .operation = PTL_SUM,
                                .datatype = PTL_INT64_T, .length = 16,
                                .total = 16 };
    struct ptl_frame fetch = { .type = PTL_FRAME_FETCH, .flags = WHOLE,
                               .operation = PTL_SUM, .datatype = PTL_INT64_T,
                               .length = 16, .total = 16 };
    struct ptl_frame swap = { .type = PTL_FRAME_FETCH, .flags = WHOLE,
                              .operation = PTL_CSWAP,
                              .datatype = PTL_INT64_T, .length = 16,
                              .total = 8 };

    WRONG (atomic, operation, PTL_SWAP); /* is fetched only */
    WRONG (atomic, operation, PTL_MSWAP + 1);
    WRONG (atomic, operation, UINT16_MAX);
    WRONG (atomic, datatype, PTL_LONG_DOUBLE_COMPLEX + 1);
    WRONG (atomic, total, 17);
    WRONG (atomic, length, 8);
    WRONG (atomic, detail, PTL_OC_ACK_REQ + 1);
    WRONG (atomic, flags, PTL_FLAG_FIRST);
    atomic.length = 12;
    atomic.total = 12;
    CHECK (decode (&atomic) == PTL_FAIL); /* one and a half */
    atomic.length = PTL_ATOMIC_MOST + 8;
    atomic.total = PTL_ATOMIC_MOST + 8;
    CHECK (decode (&atomic) == PTL_FAIL);
    WRONG (fetch, detail, 1); /* the reply is the ack */
    WRONG (fetch, length, 24);
    WRONG (swap, length, 8); /* without its operand */
    WRONG (swap, length, 24);
    WRONG (swap, total, 16); /* one element */
    WRONG (swap, datatype, PTL_INT32_T);
    fetch.operation = PTL_BOR;
    fetch.datatype = PTL_DOUBLE;
    CHECK (decode (&fetch) == PTL_FAIL);
}

static void small (void)
{
    struct ptl_frame ack
        = { .type = PTL_FRAME_ACK, .detail = PTL_ACK_SILENT };
    struct ptl_frame ping = { .type = PTL_FRAME_PING };
    struct ptl_frame bye = { .type = PTL_FRAME_BYE };

    WRONG (ack, detail, PTL_ACK_SILENT + 1);
    WRONG (ack, length, 1);
    WRONG (ack, flags, PTL_FLAG_LAST);
    WRONG (ping, length, 1);
    WRONG (bye, flags, PTL_FLAG_RETRY);
}

int main (void)
{
    uint8_t bytes[PTL_HEADER_BYTES], again[PTL_HEADER_BYTES];
    struct ptl_frame frame;
    unsigned seed = 1;

    general ();
    puts_ ();
    gets ();
    atomics ();
    small ();
    for (int i = 0; i < 1000000; i++) {
        for (size_t k = 0; k < sizeof (bytes); k += 2) {
            seed = seed * 1664525u + 1013904223u;
            bytes[k] = (uint8_t)(seed >> 24);
            bytes[k + 1] = (uint8_t)(seed >> 16);
        }
        bytes[0] %= 11;
        bytes[1] = PTL_VERSION_MAX;
        bytes[2] &= 3;
        bytes[3] = bytes[4] = bytes[11] = 0;
        bytes[5] %= 3;
        bytes[7] %= 8;
        bytes[24] %= 18;
        bytes[26] %= 14;
        bytes[25] = bytes[27] = 0;
        if (i % 2)
            memset (bytes + 24, 0, 8); /* a plain first fragment */
        if (i % 3 == 0)
            memcpy (bytes + 32, bytes + 8, 4);
        memset (bytes + 36, 0, 4);
        if (ptl_wire_decode (bytes, &frame) != PTL_OK)
            continue;
        ptl_wire_encode (&frame, again); /* nothing is lost */
        CHECK (memcmp (bytes, again, sizeof (bytes)) == 0);
        CHECK (frame.length <= PTL_PAYLOAD_MAX);
        CHECK (frame.total <= PTL_MESSAGE_MOST || frame.length == 0);
    }
    return 0;
}
