/* Parts of any size, over many wraps, by read and by peek. */
#include "ring_pair.h"

#define RING 4096
#define TOTAL 3000000

static uint32_t state = 12345;

static size_t any (size_t limit)
{
    state = state * 1664525 + 1013904223;
    return (state >> 8) % limit;
}

static size_t write_parts (struct ptl_shm *shm, uint64_t at)
{
    static uint8_t data[3][RING];
    struct iovec parts[3];

    for (int i = 0; i < 3; i++) {
        parts[i] = (struct iovec){ data[i], any (RING / 2) };
        for (size_t k = 0; k < parts[i].iov_len; k++)
            data[i][k] = byte_at (at++);
    }
    return ptl_ring_write (&shm->out, parts, 3);
}

static void check (const uint8_t *data, size_t length, uint64_t *at)
{
    for (size_t k = 0; k < length; k++)
        CHECK (data[k] == byte_at ((*at)++));
}

static void read_parts (struct ptl_shm *shm, uint64_t *at)
{
    static uint8_t data[2][RING];
    struct iovec parts[2] = { { data[0], any (RING) }, { data[1], any (RING) } };
    size_t n = ptl_ring_read (&shm->in, parts, 2), first;

    first = n < parts[0].iov_len ? n : parts[0].iov_len;
    check (data[0], first, at);
    check (data[1], n - first, at);
}

static void peek (struct ptl_shm *shm, uint64_t *at)
{
    size_t length;
    const uint8_t *data = ptl_ring_peek (&shm->in, &length);

    CHECK ((data == NULL) == (length == 0));
    if (!data)
        return;
    length = any (length + 1);
    check (data, length, at);
    ptl_ring_skip (&shm->in, length);
}

int main (void)
{
    struct ptl_shm a, b;
    uint64_t in = 0, out = 0;

    make_pair (&a, &b, RING);
    while (in < TOTAL) {
        out += write_parts (&a, out);
        CHECK (out - in <= RING);
        CHECK (ptl_ring_has_bytes (&b.in) == (out > in));
        if (any (2))
            read_parts (&b, &in);
        else
            peek (&b, &in);
        CHECK (!a.out.is_broken && !b.in.is_broken);
    }
    ptl_shm_free (&a);
    ptl_shm_free (&b);
    return 0;
}
