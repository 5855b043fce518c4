/* Two threads send messages to and fro; each sleeps until the other's comes,
 * without a limit. */
#include <pthread.h>

#include "ring_pair.h"

#define MESSAGES 100000

static struct ptl_shm a, b;

static void *answer (void *unused)
{
    uint64_t message;

    for (uint64_t i = 0; i < MESSAGES; i++) {
        read_all (&b, &message, sizeof (message));
        message++;
        write_all (&b, &message, sizeof (message));
    }
    return unused;
}

int main (void)
{
    uint64_t message;
    pthread_t thread;

    make_pair (&a, &b, PTL_SHM_RING_MIN);
    CHECK (pthread_create (&thread, NULL, answer, NULL) == 0);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        message = 2 * i;
        write_all (&a, &message, sizeof (message));
        read_all (&a, &message, sizeof (message));
        CHECK (message == 2 * i + 1);
    }
    CHECK (pthread_join (thread, NULL) == 0);
    ptl_shm_free (&a);
    ptl_shm_free (&b);
    return 0;
}
