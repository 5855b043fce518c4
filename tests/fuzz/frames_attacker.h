/* frames_attacker.h - an attacker of fuzz_frames.c, which is a proven peer: its
 * connection, what it sends there and what it reads.
 */
#ifndef FRAMES_ATTACKER_H
#define FRAMES_ATTACKER_H

#include "frames_world.h"

static inline void hang_up (struct attacker *a)
{
    if (a->fd >= 0)
        close (a->fd);
    a->fd = -1;
    a->n_seen = 0;
    a->have = a->skip = 0;
    memset (a->begun, 0, sizeof (a->begun));
}

static inline void shake (struct world *w, struct attacker *a)
{
    struct ptl_hello hello = {
        .version_min = PTL_VERSION_MIN,
        .version_max = PTL_VERSION_MAX,
        .key_kind = PTLX_KEY_PARTITION,
        .nid = LOOPBACK,
        .pid = a->pid,
        .incarnation = a->incarnation,
        .intended_nid = PTL_NID_ANY,
        .intended_pid = PTL_PID_ANY,
    };
    uint8_t m1[PTL_M1_BYTES], m2[PTL_M2_BYTES], m3[PTL_M3_BYTES];
    uint8_t m4[PTL_M4_BYTES];

    hang_up (a);
    if ((a->fd = dial (&end_path)) < 0)
        return;
    ptl_auth_put_hello (1, &hello, m1);
    if (give (&w->end, a->fd, m1, sizeof (m1))
        && get (&w->end, a->fd, m2, sizeof (m2))) {
        ptl_auth_put_m3 (partition_key, m1, m2, m3);
        if (give (&w->end, a->fd, m3, sizeof (m3))
            && get (&w->end, a->fd, m4, sizeof (m4))
            && m4[5] == PTL_CODE_READY)
            return;
    }
    hang_up (a);
}

static inline void put_bytes (struct world *w, const void *data,
                              size_t length)
{
    if (w->now->fd < 0 || w->sent + length > MOST_SENT)
        return;
    w->sent += length;
    if (!give (&w->end, w->now->fd, data, length))
        hang_up (w->now);
}

/* A frame and of its payload at most `most` bytes. */
static inline void put_frame (struct world *w, struct ptl_frame *frame,
                              size_t most)
{
    uint8_t header[PTL_HEADER_BYTES];
    size_t length = frame->length < sizeof (payload) ? frame->length
                                                     : sizeof (payload);

    frame->incarnation += (uint32_t)w->now->incarnation;
    ptl_wire_encode (frame, header);
    put_bytes (w, header, sizeof (header));
    put_bytes (w, payload, length < most ? length : most);
}

static inline void see (struct attacker *a)
{
    struct ptl_frame frame;

    HOLDS (ptl_wire_decode (a->header, &frame) == PTL_OK);
    a->skip = frame.length;
    if (frame.type == PTL_FRAME_PUT || frame.type == PTL_FRAME_GET
        || frame.type == PTL_FRAME_ATOMIC || frame.type == PTL_FRAME_FETCH)
        a->seen[a->n_seen++ % SEEN] = (struct seen){
            frame.op_index, frame.op_generation, frame.total, 0, 0
        };
}

/* Read at most so many bytes; they are frames, as our end sends no other. */
static inline void read_some (struct world *w, size_t most)
{
    struct attacker *a = w->now;
    uint8_t *to;
    size_t room;
    ssize_t n;

    while (a->fd >= 0 && most > 0) {
        to = a->skip > 0 ? payload : a->header + a->have;
        room = a->skip > 0 ? a->skip : PTL_HEADER_BYTES - a->have;
        room = room < sizeof (payload) ? room : sizeof (payload);
        n = recv (a->fd, to, room < most ? room : most, 0);
        if (n <= 0)
            return;
        most -= (size_t)n;
        if (a->skip > 0) {
            a->skip -= (size_t)n;
            continue;
        }
        a->have += (size_t)n;
        if (a->have < PTL_HEADER_BYTES)
            continue;
        a->have = 0;
        see (a);
    }
}

#endif
