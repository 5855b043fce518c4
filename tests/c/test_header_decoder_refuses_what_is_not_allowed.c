/* One wrong field at a time, then a million random headers. */
#include "harness.h"
#include "ptl_wire.h"

static int decode (size_t at, uint8_t value)
{
    struct ptl_frame frame = {
        .type = PTL_FRAME_PUT,
        .flags = PTL_FLAG_FIRST | PTL_FLAG_LAST,
    };
    uint8_t bytes[PTL_HEADER_BYTES];

    ptl_wire_encode (&frame, bytes);
    bytes[at] = value;
    return ptl_wire_decode (bytes, &frame);
}

int main (void)
{
    uint8_t bytes[PTL_HEADER_BYTES], again[PTL_HEADER_BYTES];
    struct ptl_frame frame;
    unsigned seed = 1;

    CHECK (decode (1, PTL_VERSION_MAX) == PTL_OK);
    CHECK (decode (0, 0) == PTL_FAIL);                /* type 0 */
    CHECK (decode (0, PTL_FRAME_GET) == PTL_FAIL);    /* reserved */
    CHECK (decode (0, 200) == PTL_FAIL);
    CHECK (decode (1, 99) == PTL_FAIL);               /* version */
    CHECK (decode (2, PTL_FLAG_INTEGRITY) == PTL_FAIL);
    CHECK (decode (3, 1) == PTL_FAIL);                /* unknown flag */
    CHECK (decode (4, 4) == PTL_FAIL);                /* interface kind */
    CHECK (decode (5, PTL_LANES) == PTL_FAIL);
    CHECK (decode (6, 255) == PTL_OK);                /* portal index */
    CHECK (decode (7, 4) == PTL_FAIL);                /* ack request */
    CHECK (decode (11, 1) == PTL_FAIL);               /* 16 MB payload */
    CHECK (decode (24, 1) == PTL_FAIL);               /* atomic operation */
    for (int i = 0; i < 1000000; i++) {
        for (size_t k = 0; k < sizeof (bytes); k += 2) {
            seed = seed * 1664525u + 1013904223u;
            bytes[k] = (uint8_t)(seed >> 24);
            bytes[k + 1] = (uint8_t)(seed >> 16);
        }
        bytes[0] %= 10;
        bytes[1] = PTL_VERSION_MAX;
        bytes[3] = bytes[4] = bytes[11] = 0;
        bytes[5] %= 3;
        memset (bytes + 24, 0, 4);
        if (ptl_wire_decode (bytes, &frame) != PTL_OK)
            continue;
        ptl_wire_encode (&frame, again); /* nothing is lost */
        CHECK (memcmp (bytes, again, sizeof (bytes)) == 0);
        CHECK (frame.length <= PTL_PAYLOAD_MAX);
    }
    return 0;
}
