/* A stream through a small ring, and one back: the writer sleeps when it is
 * full, the reader when it is empty, 100000 messages of odd sizes each way. */
#include "ring_pair.h"

#define MESSAGES 100000
#define LONGEST 200 /* so that the ring is full now and then */

static size_t length_of (uint64_t i)
{
    return 1 + (i * 7919) % LONGEST;
}

static void produce (struct ptl_shm *shm)
{
    uint8_t data[LONGEST];
    uint64_t at = 0;

    for (uint64_t i = 0; i < MESSAGES; i++) {
        for (size_t k = 0; k < length_of (i); k++)
            data[k] = byte_at (at++);
        write_all (shm, data, length_of (i));
    }
}

static void consume (struct ptl_shm *shm)
{
    uint8_t data[LONGEST];
    uint64_t at = 0;

    for (uint64_t i = 0; i < MESSAGES; i++) {
        read_all (shm, data, length_of (i));
        for (size_t k = 0; k < length_of (i); k++)
            CHECK (data[k] == byte_at (at++));
    }
}

int main (void)
{
    struct ptl_shm a, b;
    pid_t child;
    int status;

    make_pair (&a, &b, PTL_SHM_RING_MIN);
    CHECK ((child = fork ()) >= 0);
    if (child == 0) {
        consume (&b);
        produce (&b);
        ptl_shm_free (&a);
        ptl_shm_free (&b);
        exit (0);
    }
    produce (&a);
    consume (&a);
    CHECK (waitpid (child, &status, 0) == child && status == 0);
    ptl_shm_free (&a);
    ptl_shm_free (&b);
    return 0;
}
