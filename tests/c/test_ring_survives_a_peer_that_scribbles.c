/* A process writes random words all over the shared memory while another
 * reads and writes: it may see nonsense or a broken ring, and nothing else. */
#include <signal.h>
#include <sys/prctl.h>

#include "ring_pair.h"

#define ROUNDS 5000
#define STEPS 300

static void scribble (const struct ptl_shm *shm)
{
    _Atomic uint32_t *words = shm->memory;
    size_t count = shm->length / sizeof (*words);
    uint32_t state = 99;

    for (;;) {
        state = state * 1664525 + 1013904223;
        /* The counts more often than the rest, and often by a little. */
        size_t at = state & 0x100 ? (state >> 12) % 192 : (state >> 9) % count;
        if (state & 0x200)
            words[at] += state >> 24;
        else
            words[at] = state;
    }
}

static void use (struct ptl_shm *shm)
{
    uint8_t *data = malloc (1000), *copy = malloc (1000);
    struct iovec from[2] = { { data, 900 }, { data, 100 } };
    struct iovec to[2] = { { copy, 100 }, { copy, 900 } };
    size_t length;

    memset (data, 7, 1000);
    for (int i = 0; i < STEPS; i++) {
        CHECK (ptl_ring_write (&shm->out, from, 2) <= 1000);
        ptl_ring_wakes_reader (&shm->out);
        if (ptl_ring_writer_sleeps (&shm->out))
            ptl_ring_writer_is_up (&shm->out);
        CHECK (ptl_ring_read (&shm->in, to, 2) <= 1000);
        ptl_ring_wakes_writer (&shm->in);
        if (ptl_ring_peek (&shm->in, &length)) {
            CHECK (length <= shm->in.size);
            ptl_ring_skip (&shm->in, length);
        }
        if (ptl_ring_reader_sleeps (&shm->in))
            ptl_ring_reader_is_up (&shm->in);
    }
    free (data);
    free (copy);
}

int main (void)
{
    struct ptl_shm a, b;
    pid_t child, parent = getpid ();

    make_pair (&a, &b, PTL_SHM_RING_MIN);
    CHECK ((child = fork ()) >= 0);
    if (child == 0) {
        prctl (PR_SET_PDEATHSIG, SIGKILL);
        if (getppid () == parent)
            scribble (&b);
        _exit (0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        ptl_ring_init (&a.out, a.out.shared, a.out.bytes, a.out.size);
        ptl_ring_init (&a.in, a.in.shared, a.in.bytes, a.in.size);
        use (&a);
        /* Let the next round begin with counts that look right. */
        memset (a.memory, 0, 2 * sizeof (struct ptl_ring_shared));
    }
    CHECK (kill (child, SIGKILL) == 0);
    CHECK (waitpid (child, NULL, 0) == child);
    ptl_shm_free (&a);
    ptl_shm_free (&b);
    return 0;
}
