/* ring_pair.h - both ends of a pair of rings, given over a socket, and waits
 * that sleep on the eventfd alone: a lost wake-up hangs. */
#ifndef RING_PAIR_H
#define RING_PAIR_H

#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "ptl_shm.h"

static inline void make_pair (struct ptl_shm *maker, struct ptl_shm *taker,
                              size_t ring_bytes)
{
    struct ptl_shm_fds fds = { .n = 0 };
    char byte = 'x';
    struct iovec part = { &byte, 1 };
    int sockets[2];

    CHECK (socketpair (AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    CHECK (ptl_shm_make (maker, ring_bytes) == 0);
    CHECK (ptl_shm_give (maker, sockets[0], &byte, 1) == 1);
    ptl_shm_given (maker);
    CHECK (ptl_shm_receive (sockets[1], &part, 1, &fds) == 1);
    CHECK (ptl_shm_take (taker, &fds, ring_bytes) == 0);
    close (sockets[0]);
    close (sockets[1]);
}

static inline void sleep_on (const struct ptl_shm *shm)
{
    struct pollfd fd = { .fd = ptl_shm_own_fd (shm), .events = POLLIN };
    uint64_t value;

    CHECK (poll (&fd, 1, -1) == 1);
    CHECK (read (fd.fd, &value, sizeof (value)) == sizeof (value));
}

/* Read between 1 and `length` bytes; sleeps until there are some. */
static inline size_t read_some (struct ptl_shm *shm, void *data, size_t length)
{
    struct iovec part = { data, length };
    size_t n;

    while ((n = ptl_ring_read (&shm->in, &part, 1)) == 0) {
        CHECK (!shm->in.is_broken);
        if (ptl_ring_reader_sleeps (&shm->in))
            sleep_on (shm);
    }
    if (ptl_ring_wakes_writer (&shm->in))
        ptl_shm_wake (shm);
    return n;
}

static inline void read_all (struct ptl_shm *shm, void *data, size_t length)
{
    for (size_t done = 0; done < length;)
        done += read_some (shm, (char *)data + done, length - done);
}

static inline void write_all (struct ptl_shm *shm, const void *data,
                              size_t length)
{
    struct iovec part = { (void *)(uintptr_t)data, length };
    size_t n;

    while (part.iov_len > 0) {
        n = ptl_ring_write (&shm->out, &part, 1);
        part.iov_base = (char *)part.iov_base + n;
        part.iov_len -= n;
        CHECK (!shm->out.is_broken);
        if (ptl_ring_wakes_reader (&shm->out))
            ptl_shm_wake (shm);
        if (part.iov_len > 0 && ptl_ring_writer_sleeps (&shm->out))
            sleep_on (shm);
    }
}

/* Bytes that can be told from their neighbours in a stream. */
static inline uint8_t byte_at (uint64_t position)
{
    return (uint8_t)(position * 31 + (position >> 8));
}

#endif
