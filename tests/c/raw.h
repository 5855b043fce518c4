/* raw.h - a peer made by hand: it may send and leave unread what it likes.
 *
 * It holds the key of harness.h's ends. Ids are those of an end that does not
 * listen: LOOPBACK and a pid above 65535.
 */
#ifndef RAW_H
#define RAW_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "harness.h"
#include "ptl_auth.h"
#include "ptl_wire.h"

#define RAW_PID (1u << 20)

struct raw {
    int fd;
    uint32_t pid;
    uint64_t incarnation;
    uint8_t m1[PTL_M1_BYTES], m2[PTL_M2_BYTES], m3[PTL_M3_BYTES];
    uint8_t m4[PTL_M4_BYTES];
};

/* Drive the end until nothing is due. */
static inline void raw_drive (struct end *end)
{
    int fd;
    struct pollfd poll_fd = { .events = POLLIN };

    CHECK (PtlxFd (end->ni, &fd) == PTL_OK);
    poll_fd.fd = fd;
    do
        end_take (end);
    while (poll (&poll_fd, 1, 0) > 0);
}

/* Drive the end until `length` bytes have come. False: the stream has ended. */
static inline bool raw_take (struct end *end, int fd, void *data,
                             size_t length)
{
    int64_t until = now_ms () + LIMIT_MS;
    uint8_t *to = data;
    ssize_t n;

    while (length > 0) {
        CHECK (now_ms () < until);
        n = recv (fd, to, length, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return false;
        if (n < 0) {
            end_take (end);
            continue;
        }
        to += n;
        length -= (size_t)n;
    }
    return true;
}

/* Send all while the end reads. False: it has hung up. */
static inline bool raw_give (struct end *end, int fd, const void *data,
                             size_t length)
{
    int64_t until = now_ms () + LIMIT_MS;
    const uint8_t *at = data;
    ssize_t n;

    while (length > 0) {
        CHECK (now_ms () < until);
        n = send (fd, at, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            return false;
        if (n < 0) {
            end_take (end);
            continue;
        }
        at += n;
        length -= (size_t)n;
    }
    return true;
}

/* Small segments and a small window make the end's kernel queue little, too. */
static inline void raw_narrow (int fd)
{
    int segment = 536, window = 16384;

    CHECK (setsockopt (fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof (int))
           == 0);
    CHECK (setsockopt (fd, SOL_SOCKET, SO_RCVBUF, &window, sizeof (int))
           == 0);
}

static bool raw_is_narrow; /* the next connections */

static inline int raw_connect (const struct end *end, const char *path)
{
    struct sockaddr_in in = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl (LOOPBACK),
        .sin_port = htons ((uint16_t)end->id.phys.pid),
    };
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    int fd = socket (path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK (fd >= 0);
    if (path) {
        snprintf (un.sun_path, sizeof (un.sun_path), "%s", path);
        CHECK (connect (fd, (struct sockaddr *)&un, sizeof (un)) == 0);
    }
    else {
        if (raw_is_narrow)
            raw_narrow (fd);
        CHECK (connect (fd, (struct sockaddr *)&in, sizeof (in)) == 0);
    }
    return fd;
}

static inline void raw_hello (const struct raw *raw, uint8_t m1[PTL_M1_BYTES])
{
    struct ptl_hello hello = {
        .version_min = PTL_VERSION_MIN,
        .version_max = PTL_VERSION_MAX,
        .key_kind = PTLX_KEY_PARTITION,
        .nid = LOOPBACK,
        .pid = raw->pid,
        .incarnation = raw->incarnation,
        .intended_nid = PTL_NID_ANY,
        .intended_pid = PTL_PID_ANY,
    };

    ptl_auth_put_hello (1, &hello, m1);
}

/* Connect and prove the key; the code of m4, or -1: the end hung up. */
static inline int raw_shake (struct raw *raw, struct end *end,
                             const char *path)
{
    raw->fd = raw_connect (end, path);
    raw_hello (raw, raw->m1);
    if (!raw_give (end, raw->fd, raw->m1, PTL_M1_BYTES)
        || !raw_take (end, raw->fd, raw->m2, PTL_M2_BYTES))
        return -1;
    ptl_auth_put_m3 (test_key, raw->m1, raw->m2, raw->m3);
    if (!raw_give (end, raw->fd, raw->m3, PTL_M3_BYTES)
        || !raw_take (end, raw->fd, raw->m4, PTL_M4_BYTES))
        return -1;
    return raw->m4[5];
}

/* A proven peer, over TCP, or over the path of a Unix socket. */
static inline struct raw raw_open (struct end *end, uint32_t pid,
                                   uint64_t incarnation, const char *path)
{
    struct raw raw = { .pid = pid, .incarnation = incarnation };

    CHECK (raw_shake (&raw, end, path) == PTL_CODE_READY);
    return raw;
}

/* The bytes of a frame; their number. */
static inline size_t raw_encode (const struct raw *raw,
                                 const struct ptl_frame *frame,
                                 const void *payload, uint8_t *to)
{
    struct ptl_frame full = *frame;

    full.incarnation = (uint32_t)raw->incarnation;
    ptl_wire_encode (&full, to);
    if (frame->length > 0)
        memcpy (to + PTL_HEADER_BYTES, payload, frame->length);
    return PTL_HEADER_BYTES + (size_t)frame->length;
}

/* False: the end has hung up. */
static inline bool raw_frame (struct raw *raw, struct end *end,
                              const struct ptl_frame *frame,
                              const void *payload)
{
    uint8_t header[PTL_HEADER_BYTES];
    struct ptl_frame full = *frame;

    full.incarnation = (uint32_t)raw->incarnation;
    ptl_wire_encode (&full, header);
    return raw_give (end, raw->fd, header, sizeof (header))
        && raw_give (end, raw->fd, payload, frame->length);
}

/* A whole put of at most 4096 bytes, all 0xaa. */
static inline struct ptl_frame raw_put (ptl_pt_index_t index,
                                        uint32_t length, ptl_ack_req_t ack)
{
    return (struct ptl_frame){
        .type = PTL_FRAME_PUT,
        .flags = PTL_FLAG_FIRST | PTL_FLAG_LAST,
        .lane = PTL_LANE_DATA,
        .pt_index = (uint8_t)index,
        .detail = (uint8_t)ack,
        .length = length,
        .total = length,
        .op_generation = 1,
    };
}

/* The end's next frame, without payload. False: the stream has ended. */
static inline bool raw_answer (struct raw *raw, struct end *end,
                               struct ptl_frame *frame)
{
    uint8_t header[PTL_HEADER_BYTES];

    if (!raw_take (end, raw->fd, header, sizeof (header)))
        return false;
    CHECK (ptl_wire_decode (header, frame) == PTL_OK);
    return true;
}

/* The verdict on a whole put of 8 bytes to entry 0, whatever pings come first. */
static inline int raw_verdict (struct raw *raw, struct end *end,
                               const void *payload)
{
    struct ptl_frame frame = raw_put (0, 8, PTL_ACK_REQ), answer;

    CHECK (raw_frame (raw, end, &frame, payload));
    do
        CHECK (raw_answer (raw, end, &answer));
    while (answer.type == PTL_FRAME_PING);
    CHECK (answer.type == PTL_FRAME_ACK);
    return answer.detail;
}

#endif
