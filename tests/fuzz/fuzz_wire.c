/* fuzz_wire.c - the pure readers: a frame's header, the handshake's messages.
 *
 * Accepted fields are within the limits that FRAMES.md gives, and encode to the
 * same bytes again.
 */
#include "portals4_ext.h"
#include "ptl_auth.h"
#include "ptl_wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLDS(condition)                                                \
    do {                                                                \
        if (!(condition)) {                                             \
            fprintf (stderr, "%s:%d: %s\n", __FILE__, __LINE__,         \
                     #condition);                                       \
            abort ();                                                   \
        }                                                               \
    } while (0)

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void check_header (const uint8_t *header)
{
    struct ptl_frame frame, again;
    uint8_t copy[PTL_HEADER_BYTES];

    memset (&frame, 0, sizeof (frame));
    memset (&again, 0, sizeof (again));
    if (ptl_wire_decode (header, &frame) != PTL_OK)
        return;
    HOLDS (frame.length <= PTL_PAYLOAD_MAX);
    HOLDS (frame.lane < PTL_LANES && frame.kind < PTL_KINDS);
    ptl_wire_encode (&frame, copy);
    HOLDS (memcmp (copy, header, sizeof (copy)) == 0);
    HOLDS (ptl_wire_decode (copy, &again) == PTL_OK);
    HOLDS (memcmp (&frame, &again, sizeof (frame)) == 0);
}

static void check_hello (uint8_t message, const uint8_t *bytes)
{
    struct ptl_hello hello, again;
    uint8_t copy[PTL_HELLO_BYTES];

    memset (&hello, 0, sizeof (hello));
    memset (&again, 0, sizeof (again));
    if (ptl_auth_get_hello (message, bytes, &hello) != PTL_OK)
        return;
    HOLDS (hello.version_min >= 1 && hello.version_min <= hello.version_max);
    HOLDS (hello.key_kind >= PTLX_KEY_PARTITION);
    HOLDS (hello.key_kind <= PTLX_KEY_LOCAL);
    HOLDS (hello.nid != 0 && hello.nid != PTL_NID_ANY);
    HOLDS (hello.pid != 0 && hello.pid != PTL_PID_ANY);
    ptl_auth_put_hello (message, &hello, copy);
    HOLDS (ptl_auth_get_hello (message, copy, &again) == PTL_OK);
    HOLDS (memcmp (&hello, &again, sizeof (hello)) == 0);
}

/* As the handshake takes them from a stream: 8 bytes say how long it is. */
static void check_message (const uint8_t *data, size_t size)
{
    uint8_t message[PTL_SHAKE_MAX_BYTES] = { 0 };
    uint8_t key[PTLX_KEY_BYTES] = { 0 }, tag[PTL_TAG_BYTES];
    size_t length = ptl_auth_length (data);

    HOLDS (length <= PTL_SHAKE_MAX_BYTES);
    if (length == 0)
        return;
    memcpy (message, data, size < length ? size : length);
    check_hello (1, message);
    check_hello (2, message);
    ptl_auth_listener_tag (key, message, message, tag);
    HOLDS (ptl_auth_equal (tag, tag, sizeof (tag)));
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc (PTL_HEADER_BYTES);

    HOLDS (exact);
    memset (exact, 0, PTL_HEADER_BYTES);
    if (size > 0)
        memcpy (exact, data,
                size < PTL_HEADER_BYTES ? size : PTL_HEADER_BYTES);
    check_header (exact);
    check_message (exact, PTL_HEADER_BYTES);
    if (size >= 8)
        check_message (data, size);
    free (exact);
    return 0;
}
