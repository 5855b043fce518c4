/* PtlAbort (spec 3.16) may be called from a signal handler: it takes no lock,
 * so it may have interrupted any call of the library, and leaves errno alone.
 * All who wait return PTL_ABORTED, whether they look, sleep or wait for one
 * who does, with a progress thread and without. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "harness.h"

#define ROUNDS 10
#define SIGNALS 300
#define WAITERS 3

static ptl_handle_ni_t ni;
static atomic_uint n_handled;
static atomic_bool is_done, is_wrong;
static atomic_uint n_begun;

static void handle (int number)
{
    int before = errno;

    (void)number;
    errno = ENOTUNIQ;
    PtlAbort ();
    if (errno != ENOTUNIQ)
        atomic_store (&is_wrong, true);
    errno = before;
    atomic_fetch_add (&n_handled, 1);
}

static void open_interface (void)
{
    CHECK (PtlInit () == PTL_OK);
    CHECK (PtlNIInit (PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL,
                      PTL_PID_ANY, NULL, NULL, &ni)
           == PTL_OK);
}

/* ---- waits ---- */

static void *wait_for (void *context)
{
    ptl_handle_ct_t ct = *(ptl_handle_ct_t *)context;
    ptl_ct_event_t count;

    atomic_fetch_add (&n_begun, 1);
    CHECK (PtlCTWait (ct, 1, &count) == PTL_ABORTED);
    CHECK (PtlCTWait (ct, 1, &count) == PTL_ABORTED);
    return NULL;
}

static void check_waits (void)
{
    pthread_t threads[WAITERS];
    ptl_handle_ct_t ct;
    ptl_ct_event_t count;
    ptl_size_t test = 1;
    unsigned which;

    open_interface ();
    atomic_store (&n_begun, 0);
    CHECK (PtlCTAlloc (ni, &ct) == PTL_OK);
    for (int i = 0; i < WAITERS; i++)
        CHECK (pthread_create (&threads[i], NULL, wait_for, &ct) == 0);
    while (atomic_load (&n_begun) < WAITERS)
        sched_yield ();
    CHECK (PtlCTPoll (&ct, &test, 1, 2, &count, &which)
           == PTL_CT_NONE_REACHED); /* meanwhile they sleep, more or less */
    CHECK (raise (SIGUSR1) == 0);
    for (int i = 0; i < WAITERS; i++)
        CHECK (pthread_join (threads[i], NULL) == 0);
    PtlFini ();
}

/* ---- calls ---- */

static void *call_on (void *unused)
{
    ptl_handle_ct_t ct;
    ptl_ct_event_t count;

    while (!atomic_load (&is_done)) {
        CHECK (PtlCTAlloc (ni, &ct) == PTL_OK);
        CHECK (PtlCTInc (ct, (ptl_ct_event_t){ 1, 0 }) == PTL_OK);
        CHECK (PtlCTGet (ct, &count) == PTL_OK && count.success == 1);
        CHECK (PtlCTFree (ct) == PTL_OK);
    }
    return unused;
}

static void check_calls (void)
{
    pthread_t thread;

    open_interface ();
    atomic_store (&is_done, false);
    CHECK (pthread_create (&thread, NULL, call_on, NULL) == 0);
    for (unsigned i = 1; i <= SIGNALS; i++) {
        unsigned before = atomic_load (&n_handled);

        CHECK (pthread_kill (thread, SIGUSR1) == 0);
        while (atomic_load (&n_handled) == before)
            sched_yield ();
    }
    atomic_store (&is_done, true);
    CHECK (pthread_join (thread, NULL) == 0);
    PtlFini ();
}

/* ---- lives ---- */

/* Out of its life an abort does nothing. */
static void check_lives (void)
{
    ptl_handle_ct_t ct;
    ptl_ct_event_t count;
    ptl_size_t test = 1;
    unsigned which;

    CHECK (raise (SIGUSR1) == 0);
    open_interface ();
    CHECK (PtlCTAlloc (ni, &ct) == PTL_OK);
    CHECK (PtlCTPoll (&ct, &test, 1, 1, &count, &which)
           == PTL_CT_NONE_REACHED);
    PtlFini ();
    CHECK (raise (SIGUSR1) == 0);
}

int main (void)
{
    struct sigaction action = { .sa_handler = handle };

    CHECK (sigaction (SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        setenv ("PTL_PROGRESS", i % 2 ? "none" : "thread", 1);
        check_waits ();
    }
    check_calls ();
    check_lives ();
    CHECK (!atomic_load (&is_wrong));
    return 0;
}
