/* ptl_ring.h - one producer, one consumer: bytes in memory that two processes
 * map.
 *
 * There is no lock and no pointer in the shared part: two counts of bytes,
 * each written by one side, and two flags that say who sleeps. The other side
 * is not trusted: an end keeps its own count to itself, checks the other's
 * each time, and from the first lie on the ring is broken: it takes and gives
 * nothing, and its memory is never touched outside. What is read may change
 * under the reader's hands, so it is copied out once and checked then.
 *
 * Who wants to sleep raises its flag, then looks once more; who has written
 * (or made room) publishes it, then looks at the flag. A full fence stands
 * between on both sides, so no wake-up is lost. How to wake is the caller's.
 *
 * A struct ptl_ring belongs to one thread at a time.
 */
#ifndef PTL_RING_H
#define PTL_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define PTL_RING_LINE 128 /* processors fetch lines of 64 bytes in pairs */

/* What both processes see. Zeros are an empty ring. */
struct ptl_ring_shared {
    _Alignas (PTL_RING_LINE) _Atomic uint64_t written; /* by the producer */
    _Alignas (PTL_RING_LINE) _Atomic uint64_t taken;   /* by the consumer */
    /* Seldom written, often read: on a line of their own. */
    _Alignas (PTL_RING_LINE) _Atomic uint32_t reader_sleeps;
    _Atomic uint32_t writer_sleeps;
};

_Static_assert (ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
                "a lock cannot be shared");
_Static_assert (sizeof (struct ptl_ring_shared) == 3 * PTL_RING_LINE,
                "the layout is told in FRAMES.md");

/* One end of a ring: the producer's or the consumer's. */
struct ptl_ring {
    struct ptl_ring_shared *shared;
    uint8_t *bytes;
    size_t size;    /* a power of two */
    uint64_t own;   /* what we have written, or taken */
    uint64_t other; /* what the other side had, when we last looked */
    bool is_broken; /* the other side has lied */
};

/* Initialise an end of the ring at `shared`, with `size` bytes at `bytes`. */
void ptl_ring_init (struct ptl_ring *ring, struct ptl_ring_shared *shared,
                    void *bytes, size_t size);

/* ---- the producer ---- */

/* Write as much as fits of the parts, in order: the number of bytes. */
size_t ptl_ring_write (struct ptl_ring *ring, const struct iovec *parts,
                       int count);

/* After a write: must the reader be woken? At most one caller is told so for
 * each sleep. */
bool ptl_ring_wakes_reader (struct ptl_ring *ring);

/* The writer wants to sleep until there is room. False: there is, do not. */
bool ptl_ring_writer_sleeps (struct ptl_ring *ring);

/* The writer does not sleep any more. */
void ptl_ring_writer_is_up (struct ptl_ring *ring);

/* Is there enough room for a writer that sleeps to go on? */
bool ptl_ring_has_room (struct ptl_ring *ring);

/* ---- the consumer ---- */

/* Read what is there into the parts, in order: the number of bytes. */
size_t ptl_ring_read (struct ptl_ring *ring, const struct iovec *parts,
                      int count);

/* The bytes that are there without a wrap, still in shared memory; NULL: none.
 * They may change while they are looked at. */
const uint8_t *ptl_ring_peek (struct ptl_ring *ring, size_t *length);

/* Take `length` bytes, at most as many as were peeked. */
void ptl_ring_skip (struct ptl_ring *ring, size_t length);

/* After a read or skip: must the writer be woken? */
bool ptl_ring_wakes_writer (struct ptl_ring *ring);

/* The reader wants to sleep until there are bytes. False: there are, or the
 * ring is broken: do not. */
bool ptl_ring_reader_sleeps (struct ptl_ring *ring);

/* The reader does not sleep any more. */
void ptl_ring_reader_is_up (struct ptl_ring *ring);

/* Is there something to read, or a broken ring to be noticed? */
bool ptl_ring_has_bytes (struct ptl_ring *ring);

#endif
