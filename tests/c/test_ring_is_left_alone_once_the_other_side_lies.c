/* Any count that the other side could not have reached breaks the ring: no
 * byte is given or taken, and nothing outside is touched. */
#include "ring_pair.h"

#define RING PTL_SHM_RING_MIN

static const uint64_t lies[] = {
    RING + 1, RING * 2, 1ull << 32, 1ull << 63, UINT64_MAX, UINT64_MAX - RING,
};

static void lie_to_reader (uint64_t lie)
{
    struct ptl_shm a, b;
    uint8_t data[64] = { 1 };
    struct iovec part = { data, sizeof (data) };
    size_t length = 99;

    make_pair (&a, &b, RING);
    CHECK (ptl_ring_write (&a.out, &part, 1) == sizeof (data));
    CHECK (ptl_ring_read (&b.in, &part, 1) == sizeof (data));
    a.out.shared->written += lie;
    CHECK (ptl_ring_read (&b.in, &part, 1) == 0);
    CHECK (b.in.is_broken);
    CHECK (ptl_ring_peek (&b.in, &length) == NULL && length == 0);
    CHECK (ptl_ring_has_bytes (&b.in)); /* to be noticed */
    CHECK (!ptl_ring_reader_sleeps (&b.in));
    a.out.shared->written -= lie; /* the truth comes too late */
    CHECK (ptl_ring_read (&b.in, &part, 1) == 0);
    ptl_shm_free (&a);
    ptl_shm_free (&b);
}

static void lie_to_writer (uint64_t lie)
{
    struct ptl_shm a, b;
    static uint8_t data[RING];
    struct iovec part = { data, sizeof (data) };

    make_pair (&a, &b, RING);
    CHECK (ptl_ring_write (&a.out, &part, 1) == RING);
    b.in.shared->taken += lie;
    CHECK (ptl_ring_write (&a.out, &part, 1) == 0);
    CHECK (a.out.is_broken);
    CHECK (ptl_ring_has_room (&a.out)); /* to be noticed */
    CHECK (!ptl_ring_writer_sleeps (&a.out));
    ptl_shm_free (&a);
    ptl_shm_free (&b);
}

/* Each end keeps its own count to itself. */
static void spoil_own_counts (void)
{
    struct ptl_shm a, b;
    uint8_t data[64] = { 1 }, copy[64] = { 0 };
    struct iovec from = { data, sizeof (data) }, to = { copy, sizeof (copy) };

    make_pair (&a, &b, RING);
    CHECK (ptl_ring_write (&a.out, &from, 1) == sizeof (data));
    CHECK (ptl_ring_read (&b.in, &to, 1) == sizeof (data));
    a.out.shared->written = 12345678;
    b.in.shared->taken = 87654321;
    a.out.shared->reader_sleeps = a.out.shared->writer_sleeps = 0xffffffff;
    CHECK (ptl_ring_write (&a.out, &from, 1) == sizeof (data));
    CHECK (ptl_ring_wakes_reader (&a.out) && !ptl_ring_wakes_reader (&a.out));
    CHECK (ptl_ring_read (&b.in, &to, 1) == sizeof (data));
    CHECK (memcmp (data, copy, sizeof (data)) == 0);
    ptl_shm_free (&a);
    ptl_shm_free (&b);
}

int main (void)
{
    for (size_t i = 0; i < sizeof (lies) / sizeof (*lies); i++) {
        lie_to_reader (lies[i]);
        lie_to_writer (lies[i]);
    }
    lie_to_reader (UINT64_MAX - 63); /* it never goes back */
    spoil_own_counts ();
    return 0;
}
