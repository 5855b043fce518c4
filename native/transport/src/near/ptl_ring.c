#include "ptl_ring.h"

#include <string.h>

/* Wake a sleeping writer only when this part of the ring is free: with less
 * room it would sleep again at once. */
#define ROOM_TO_WAKE(size) ((size) / 4)

void ptl_ring_init (struct ptl_ring *ring, struct ptl_ring_shared *shared,
                    void *bytes, size_t size)
{
    *ring = (struct ptl_ring){ .shared = shared, .bytes = bytes, .size = size };
}

static size_t sum (const struct iovec *parts, int count)
{
    size_t total = 0;

    for (int i = 0; i < count; i++)
        total += parts[i].iov_len;
    return total;
}

static size_t least (size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Copy between the ring at position `at` and memory; the bytes are there. */
static void copy_in (struct ptl_ring *ring, uint64_t at, const void *from,
                     size_t length)
{
    size_t begin = (size_t)at & (ring->size - 1);
    size_t part = least (length, ring->size - begin);

    memcpy (ring->bytes + begin, from, part);
    if (part < length)
        memcpy (ring->bytes, (const uint8_t *)from + part, length - part);
}

static void copy_out (const struct ptl_ring *ring, uint64_t at, void *to,
                      size_t length)
{
    size_t begin = (size_t)at & (ring->size - 1);
    size_t part = least (length, ring->size - begin);

    memcpy (to, ring->bytes + begin, part);
    if (part < length)
        memcpy ((uint8_t *)to + part, ring->bytes, length - part);
}

/* Read the other side's count. It must not go back, nor beyond `limit` from
 * where it was: else the ring is broken. */
static void look (struct ptl_ring *ring, _Atomic uint64_t *count,
                  uint64_t limit)
{
    uint64_t now = atomic_load_explicit (count, memory_order_acquire);

    if (now - ring->other > limit)
        ring->is_broken = true;
    else
        ring->other = now;
}

/* ---- the producer ---- */

static size_t room (const struct ptl_ring *ring)
{
    return ring->is_broken ? 0
                           : ring->size - (size_t)(ring->own - ring->other);
}

/* The reader can have taken at most what we have written. */
static void look_at_reader (struct ptl_ring *ring)
{
    look (ring, &ring->shared->taken, ring->own - ring->other);
}

size_t ptl_ring_write (struct ptl_ring *ring, const struct iovec *parts,
                       int count)
{
    size_t wanted = sum (parts, count), left, part;

    if (room (ring) < wanted)
        look_at_reader (ring);
    wanted = left = least (wanted, room (ring));
    for (int i = 0; left > 0; i++) {
        part = least (parts[i].iov_len, left);
        copy_in (ring, ring->own + (wanted - left), parts[i].iov_base, part);
        left -= part;
    }
    ring->own += wanted;
    if (wanted > 0)
        atomic_store_explicit (&ring->shared->written, ring->own,
                               memory_order_release);
    return wanted;
}

/* A thread that raised its flag before this fence sees what was published
 * before it. */
static bool take_flag (_Atomic uint32_t *flag)
{
    atomic_thread_fence (memory_order_seq_cst);
    return atomic_load_explicit (flag, memory_order_relaxed)
        && atomic_exchange_explicit (flag, 0, memory_order_relaxed);
}

static void raise_flag (_Atomic uint32_t *flag)
{
    atomic_store_explicit (flag, 1, memory_order_relaxed);
    atomic_thread_fence (memory_order_seq_cst);
}

static void lower_flag (_Atomic uint32_t *flag)
{
    atomic_store_explicit (flag, 0, memory_order_relaxed);
}

bool ptl_ring_wakes_reader (struct ptl_ring *ring)
{
    return take_flag (&ring->shared->reader_sleeps);
}

bool ptl_ring_has_room (struct ptl_ring *ring)
{
    look_at_reader (ring);
    return ring->is_broken || room (ring) >= ROOM_TO_WAKE (ring->size);
}

bool ptl_ring_writer_sleeps (struct ptl_ring *ring)
{
    raise_flag (&ring->shared->writer_sleeps);
    if (!ptl_ring_has_room (ring))
        return true;
    lower_flag (&ring->shared->writer_sleeps);
    return false;
}

void ptl_ring_writer_is_up (struct ptl_ring *ring)
{
    lower_flag (&ring->shared->writer_sleeps);
}

/* ---- the consumer ---- */

static size_t filled (const struct ptl_ring *ring)
{
    return ring->is_broken ? 0 : (size_t)(ring->other - ring->own);
}

/* The writer can have filled at most what was free. */
static void look_at_writer (struct ptl_ring *ring)
{
    look (ring, &ring->shared->written,
          ring->size - (ring->other - ring->own));
}

void ptl_ring_skip (struct ptl_ring *ring, size_t length)
{
    ring->own += least (length, filled (ring));
    atomic_store_explicit (&ring->shared->taken, ring->own,
                           memory_order_release);
}

size_t ptl_ring_read (struct ptl_ring *ring, const struct iovec *parts,
                      int count)
{
    size_t wanted = sum (parts, count), left, part;

    if (filled (ring) < wanted)
        look_at_writer (ring);
    wanted = left = least (wanted, filled (ring));
    for (int i = 0; left > 0; i++) {
        part = least (parts[i].iov_len, left);
        copy_out (ring, ring->own + (wanted - left), parts[i].iov_base, part);
        left -= part;
    }
    if (wanted > 0)
        ptl_ring_skip (ring, wanted);
    return wanted;
}

const uint8_t *ptl_ring_peek (struct ptl_ring *ring, size_t *length)
{
    size_t begin = (size_t)ring->own & (ring->size - 1);

    if (filled (ring) == 0)
        look_at_writer (ring);
    *length = least (filled (ring), ring->size - begin);
    return *length > 0 ? ring->bytes + begin : NULL;
}

bool ptl_ring_wakes_writer (struct ptl_ring *ring)
{
    /* Our copy of the other count may be old. Then there is less room than we
     * think, and a sleeping writer is woken later, but never missed. */
    return ring->size - filled (ring) >= ROOM_TO_WAKE (ring->size)
        && take_flag (&ring->shared->writer_sleeps);
}

bool ptl_ring_has_bytes (struct ptl_ring *ring)
{
    if (filled (ring) == 0)
        look_at_writer (ring);
    return ring->is_broken || filled (ring) > 0;
}

bool ptl_ring_reader_sleeps (struct ptl_ring *ring)
{
    raise_flag (&ring->shared->reader_sleeps);
    if (!ptl_ring_has_bytes (ring))
        return true;
    lower_flag (&ring->shared->reader_sleeps);
    return false;
}

void ptl_ring_reader_is_up (struct ptl_ring *ring)
{
    lower_flag (&ring->shared->reader_sleeps);
}
