/* Threads share one PtlInit, and each begins and ends the interface at any time:
 * a handle from PtlNIInit can be used until the same thread's PtlNIFini, also if
 * another thread has just ended its own. */
#include <pthread.h>

#include "harness.h"

#define ROUNDS 300
#define THREADS 3

static void *use (void *unused)
{
    ptl_handle_ni_t ni;
    ptl_handle_ct_t ct;

    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK (PtlNIInit (PTL_IFACE_DEFAULT,
                          PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY,
                          NULL, NULL, &ni)
               == PTL_OK);
        CHECK (PtlCTAlloc (ni, &ct) == PTL_OK);
        CHECK (PtlCTInc (ct, (ptl_ct_event_t){ 1, 0 }) == PTL_OK);
        CHECK (PtlCTFree (ct) == PTL_OK);
        CHECK (PtlNIFini (ni) == PTL_OK);
    }
    return NULL;
}

int main (void)
{
    pthread_t threads[THREADS];

    CHECK (PtlInit () == PTL_OK);
    for (int i = 0; i < THREADS; i++)
        CHECK (pthread_create (&threads[i], NULL, use, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK (pthread_join (threads[i], NULL) == 0);
    PtlFini ();
    return 0;
}
