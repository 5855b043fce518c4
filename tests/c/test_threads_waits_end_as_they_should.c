/* PtlEQWait, PtlEQPoll, PtlCTWait, PtlCTPoll (spec 3.13.5 to 3.14.5), PtlAbort (3.5.3):
 * a poll waits as many milliseconds as it is told (none with 0, without end
 * with PTL_TIME_FOREVER), tells which of many is ready, and the first of them
 * when several are; a failure that is counted ends a wait. Freeing the queue or
 * the counter, or ending the interface or all, ends it with PTL_INTERRUPTED. PtlAbort
 * ends it with PTL_ABORTED, and all that come later, also where an event is
 * there; gets go on, and a new life of the library is not aborted.
 */
#include <pthread.h>

#include "harness.h"

#define EVERY ((ptl_ct_event_t){ 1, 0 })

enum wait { EQ_WAIT, EQ_POLL, CT_WAIT, CT_POLL, WAITS };

static ptl_handle_ni_t ni;
static ptl_handle_eq_t eqs[3];
static ptl_handle_ct_t cts[3];
static const ptl_size_t tests[3] = { 5, 5, 5 };
static ptl_pt_index_t index_of[3]; /* its events go to that queue */

static void open_interface (void)
{
    CHECK (PtlInit () == PTL_OK);
    CHECK (PtlNIInit (PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL,
                      PTL_PID_ANY, NULL, NULL, &ni)
           == PTL_OK);
    for (int i = 0; i < 3; i++) {
        CHECK (PtlEQAlloc (ni, 4, &eqs[i]) == PTL_OK);
        CHECK (PtlCTAlloc (ni, &cts[i]) == PTL_OK);
        CHECK (PtlPTAlloc (ni, 0, eqs[i], PTL_PT_ANY, &index_of[i])
               == PTL_OK);
    }
}

/* An event for a queue: that of an entry which is linked. */
static void post_to (int i)
{
    ptl_le_t le = { .uid = PTL_UID_ANY, .ct_handle = PTL_CT_NONE };
    ptl_handle_le_t handle;

    CHECK (PtlLEAppend (ni, index_of[i], &le, PTL_PRIORITY_LIST, NULL,
                        &handle)
           == PTL_OK);
    CHECK (PtlLEUnlink (handle) == PTL_OK);
}

static int wait_with (enum wait how, ptl_time_t timeout)
{
    ptl_ct_event_t count;
    ptl_event_t event;
    unsigned which;

    switch (how) {
    case EQ_WAIT:
        return PtlEQWait (eqs[0], &event);
    case EQ_POLL:
        return PtlEQPoll (eqs, 3, timeout, &event, &which);
    case CT_WAIT:
        return PtlCTWait (cts[0], 5, &count);
    default:
        return PtlCTPoll (cts, tests, 3, timeout, &count, &which);
    }
}

/* ---- time ---- */

static void check_times (void)
{
    static const ptl_time_t times[] = { 0, 1, 30 };
    struct timespec before, after;
    int64_t passed;

    for (size_t i = 0; i < sizeof (times) / sizeof (*times); i++) {
        clock_gettime (CLOCK_MONOTONIC, &before);
        CHECK (wait_with (EQ_POLL, times[i]) == PTL_EQ_EMPTY);
        CHECK (wait_with (CT_POLL, times[i]) == PTL_CT_NONE_REACHED);
        clock_gettime (CLOCK_MONOTONIC, &after);
        passed = (after.tv_sec - before.tv_sec) * 1000000000
            + (after.tv_nsec - before.tv_nsec);
        CHECK (passed >= (int64_t)times[i] * 2 * 1000000);
    }
}

/* ---- which ---- */

static void check_queues (void)
{
    ptl_event_t event;
    unsigned which;

    for (unsigned i = 0; i < 3; i++) {
        post_to ((int)i);
        CHECK (PtlEQPoll (eqs, 3, PTL_TIME_FOREVER, &event, &which)
               == PTL_OK);
        CHECK (which == i && event.type == PTL_EVENT_LINK);
    }
    post_to (2);
    post_to (1);
    CHECK (PtlEQPoll (eqs, 3, 0, &event, &which) == PTL_OK && which == 1);
    CHECK (PtlEQPoll (eqs, 3, 0, &event, &which) == PTL_OK && which == 2);
    CHECK (PtlEQPoll (eqs, 3, 0, &event, &which) == PTL_EQ_EMPTY);
    CHECK (PtlEQGet (eqs[0], &event) == PTL_EQ_EMPTY);
}

/* Six events in a queue of four: the oldest are lost, and told of once. */
static void check_dropped (void)
{
    ptl_event_t event;
    unsigned which;

    for (int how = 0; how < 3; how++) {
        for (int i = 0; i < 6; i++)
            post_to (0);
        if (how == 0)
            CHECK (PtlEQGet (eqs[0], &event) == PTL_EQ_DROPPED);
        else if (how == 1)
            CHECK (PtlEQWait (eqs[0], &event) == PTL_EQ_DROPPED);
        else
            CHECK (PtlEQPoll (eqs, 3, 0, &event, &which) == PTL_EQ_DROPPED
                   && which == 0);
        CHECK (event.type == PTL_EVENT_LINK);
        for (int i = 0; i < 3; i++)
            CHECK (PtlEQGet (eqs[0], &event) == PTL_OK);
        CHECK (PtlEQGet (eqs[0], &event) == PTL_EQ_EMPTY);
    }
}

static void check_counters (void)
{
    ptl_ct_event_t value = { 5, 0 };
    unsigned which;

    for (unsigned i = 0; i < 3; i++) {
        CHECK (PtlCTSet (cts[i], (ptl_ct_event_t){ 4, 0 }) == PTL_OK);
        CHECK (PtlCTPoll (cts, tests, 3, 0, &value, &which)
               == PTL_CT_NONE_REACHED);
        CHECK (PtlCTInc (cts[i], EVERY) == PTL_OK);
        CHECK (PtlCTPoll (cts, tests, 3, PTL_TIME_FOREVER, &value, &which)
               == PTL_OK);
        CHECK (which == i && value.success == 5 && value.failure == 0);
        CHECK (PtlCTSet (cts[i], (ptl_ct_event_t){ 0, 1 }) == PTL_OK);
        CHECK (PtlCTPoll (cts, tests, 3, 0, &value, &which) == PTL_OK);
        CHECK (which == i && value.success == 0 && value.failure == 1);
        CHECK (PtlCTWait (cts[i], 5, &value) == PTL_OK && value.failure == 1);
        CHECK (PtlCTSet (cts[i], (ptl_ct_event_t){ 0, 0 }) == PTL_OK);
        CHECK (PtlCTGet (cts[i], &value) == PTL_OK);
        CHECK (value.success == 0 && value.failure == 0);
    }
}

/* ---- other threads ---- */

static int results[WAITS];

static void *wait_there (void *how)
{
    enum wait wait = (enum wait)(intptr_t)how;

    results[wait] = wait_with (wait, PTL_TIME_FOREVER);
    return NULL;
}

/* What a wait says that begins when all is gone. */
static bool is_late (int rc, int wanted)
{
    return wanted == PTL_INTERRUPTED
        && (rc == PTL_ARG_INVALID || rc == PTL_NO_INIT);
}

/* Four waits, one of each, which `end` ends; it may come before them. */
static void check_end (void (*end) (void), int wanted)
{
    pthread_t threads[WAITS];

    for (intptr_t i = 0; i < WAITS; i++)
        CHECK (pthread_create (&threads[i], NULL, wait_there, (void *)i)
               == 0);
    end ();
    for (int i = 0; i < WAITS; i++) {
        CHECK (pthread_join (threads[i], NULL) == 0);
        if (results[i] == wanted || is_late (results[i], wanted))
            continue;
        fprintf (stderr, "wait %d: %d\n", i, results[i]);
        exit (1);
    }
}

static void give_all (void)
{
    for (int i = 0; i < 2; i++) { /* a wait and a poll */
        post_to (0);
        CHECK (PtlCTInc (cts[0], (ptl_ct_event_t){ 3, 0 }) == PTL_OK);
    }
}

/* The objects that both of each sort wait for. */
static void free_first (void)
{
    CHECK (PtlPTFree (ni, index_of[0]) == PTL_OK);
    CHECK (PtlEQFree (eqs[0]) == PTL_OK);
    CHECK (PtlCTFree (cts[0]) == PTL_OK);
}

static void end_interface (void)
{
    CHECK (PtlNIFini (ni) == PTL_OK);
}

/* Another interface of the process lives on, and so does a wait on it. */
static void check_other (void)
{
    ptl_handle_ni_t other;
    ptl_handle_ct_t mine, its;
    pthread_t thread;

    CHECK (PtlNIInit (PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL,
                      PTL_PID_ANY, NULL, NULL, &other)
           == PTL_OK);
    CHECK (PtlCTAlloc (other, &its) == PTL_OK);
    check_end (end_interface, PTL_INTERRUPTED);
    mine = cts[0];
    cts[0] = its;
    CHECK (pthread_create (&thread, NULL, wait_there, (void *)CT_WAIT) == 0);
    CHECK (PtlNIInit (PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL,
                      PTL_PID_ANY, NULL, NULL, &ni)
           == PTL_OK);
    CHECK (PtlNIFini (ni) == PTL_OK);
    CHECK (PtlCTInc (its, (ptl_ct_event_t){ 5, 0 }) == PTL_OK);
    CHECK (pthread_join (thread, NULL) == 0 && results[CT_WAIT] == PTL_OK);
    CHECK (PtlCTFree (mine) == PTL_ARG_INVALID);
}

static void check_aborted (void)
{
    ptl_event_t event;
    ptl_ct_event_t value;

    post_to (0);
    CHECK (PtlCTSet (cts[0], (ptl_ct_event_t){ 5, 0 }) == PTL_OK);
    for (int round = 0; round < 2; round++)
        for (enum wait how = EQ_WAIT; how < WAITS; how++)
            CHECK (wait_with (how, 0) == PTL_ABORTED);
    CHECK (PtlEQGet (eqs[0], &event) == PTL_OK);
    CHECK (PtlCTGet (cts[0], &value) == PTL_OK && value.success == 5);
    PtlAbort ();
    CHECK (PtlNIFini (ni) == PTL_OK);
    CHECK (PtlInit () == PTL_OK); /* the same life goes on */
    PtlFini ();
    open_interface ();
    CHECK (wait_with (CT_POLL, 0) == PTL_ABORTED);
    PtlFini ();
    PtlFini ();
}

int main (void)
{
    PtlAbort (); /* of nothing */
    open_interface ();
    check_times ();
    check_queues ();
    check_dropped ();
    check_counters ();
    check_end (give_all, PTL_OK);
    CHECK (PtlCTSet (cts[0], (ptl_ct_event_t){ 0, 0 }) == PTL_OK);
    check_end (free_first, PTL_INTERRUPTED);
    PtlFini ();

    open_interface ();
    check_end (end_interface, PTL_INTERRUPTED);
    PtlFini ();

    open_interface ();
    check_other ();
    PtlFini ();

    open_interface (); /* all of it ends */
    check_end (PtlFini, PTL_INTERRUPTED);

    open_interface ();
    check_end (PtlAbort, PTL_ABORTED);
    check_aborted ();

    open_interface (); /* a new life */
    check_times ();
    PtlFini ();
    return 0;
}
