#include "ptl_wait.h"

#include <sys/epoll.h>

#include "ptl_end.h"
#include "ptl_env.h"
#include "ptl_process.h"

#define SPIN_LEAST_NS 1000  /* less is not tried */
#define SPIN_AGAIN_WAITS 32 /* then it may pay again */

/* ---- one round ---- */

/* How long to spin before sleeping. Spinning is useless where the other end
 * needs our processor or takes long: measure that, and spin less. */
static int64_t spin_ns (struct ptl_end *end)
{
    if (end->spin_ns < SPIN_LEAST_NS
        && end->n_unspun++ % SPIN_AGAIN_WAITS == 0)
        end->spin_ns = ptl_env ()->spin_ns;
    return end->spin_ns < SPIN_LEAST_NS ? 0 : end->spin_ns;
}

static void learn (struct ptl_end *end, bool has_slept)
{
    end->spin_ns = has_slept ? end->spin_ns / 2 : ptl_env ()->spin_ns;
}

static int milliseconds (int64_t now_ns, int64_t until_ns)
{
    int64_t left;

    if (until_ns == PTL_NEVER)
        return -1;
    left = (until_ns - now_ns + 999999) / 1000000;
    return left > INT32_MAX ? INT32_MAX : (int)left;
}

/* Sleep until the endpoint has something to do. What epoll reports is looked at
 * again under the lock: a connection may end meanwhile. */
static void sleep_in_epoll (struct ptl_end *end, int timeout_ms)
{
    struct epoll_event ignored;

    ptl_end_unsignal (end);
    end->changes_seen = end->changes;
    end->n_asleep++;
    if (ptl_end_may_sleep (end)) {
        ptl_unlock ();
        (void)!epoll_wait (end->epoll_fd, &ignored, 1, timeout_ms);
        ptl_lock ();
    }
    end->n_asleep--;
}

static void drive (struct ptl_end *end, int64_t now_ns, int64_t until_ns)
{
    end->is_driven = true;
    sleep_in_epoll (end, milliseconds (now_ns, until_ns));
    end->is_driven = false;
    ptl_end_progress (end, 0);
    if (end->n_waiting > 1)
        pthread_cond_broadcast (&end->woken);
}

/* Somebody else drives. */
static void sleep_meanwhile (struct ptl_end *end, int64_t until_ns)
{
    struct timespec at
        = { until_ns / 1000000000, until_ns % 1000000000 };

    if (until_ns == PTL_NEVER)
        pthread_cond_wait (&end->woken, ptl_the_lock ());
    else
        pthread_cond_clockwait (&end->woken, ptl_the_lock (),
                                CLOCK_MONOTONIC, &at);
}

static void sleep_once (struct ptl_end *end, int64_t now_ns, int64_t until_ns)
{
    if (end->is_driven)
        sleep_meanwhile (end, until_ns);
    else
        drive (end, now_ns, until_ns);
}

/* ---- waiting ---- */

static int look_again (struct ptl_end *end, ptl_look *look, void *context)
{
    if (ptl_is_aborted ())
        return PTL_ABORTED;
    if (end->is_ending)
        return PTL_INTERRUPTED;
    return look (context);
}

/* Look for arrivals. A thread that sleeps in the epoll set may wake up after
 * its message has been taken here: it has to be told. */
static void look_around (struct ptl_end *end)
{
    ptl_end_poll (end);
    if (end->is_driven)
        ptl_end_signal (end);
}

static int wait_until (struct ptl_end *end, ptl_look *look, void *context,
                       int64_t until_ns)
{
    int64_t now = ptl_clock_ns (), spin_until;
    bool has_slept = false;
    int rc = look_again (end, look, context);

    if (rc != PTL_WAIT_MORE || now >= until_ns)
        return rc;
    spin_until = now + spin_ns (end);
    while (rc == PTL_WAIT_MORE && now < until_ns) {
        if (now < spin_until) {
            look_around (end);
            ptl_let_others ();
        }
        else {
            has_slept = true;
            sleep_once (end, now, until_ns);
        }
        now = ptl_clock_ns ();
        rc = look_again (end, look, context);
    }
    learn (end, has_slept);
    return rc;
}

int ptl_wait (struct ptl_end *end, ptl_look *look, void *context,
              int64_t until_ns)
{
    int rc;

    look_around (end);
    end->n_waiting++;
    rc = wait_until (end, look, context, until_ns);
    end->n_waiting--;
    end->n_calls++;
    if (end->n_waiting > 0 || end->is_ending) /* another one has to drive */
        pthread_cond_broadcast (&end->woken);
    ptl_progress_wake (end);
    return rc;
}

void ptl_wait_wake (struct ptl_end *end)
{
    end->changes++;
    ptl_end_signal (end);
    pthread_cond_broadcast (&end->woken);
}

void ptl_wait_end (struct ptl_end *end)
{
    end->is_ending = true;
    while (end->n_waiting > 0) {
        ptl_wait_wake (end);
        pthread_cond_wait (&end->woken, ptl_the_lock ());
    }
}

/* ---- the thread ---- */

#ifdef PTL_NO_THREAD

void ptl_progress_start (struct ptl_end *end)
{
    (void)end;
}

void ptl_progress_stop (void)
{
}

void ptl_progress_wake (const struct ptl_end *end)
{
    (void)end;
}

#else

#include <signal.h>

#define AWAY_NS 1000000

static struct {
    pthread_t id;
    struct ptl_end *end; /* NULL: there is no thread */
    bool is_parked;      /* sleeps until woken */
    bool is_stopping;
    pthread_mutex_t mutex; /* of what follows: sleeping without the lock */
    pthread_cond_t wake;
    bool is_called;
} thread
    = { .mutex = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

/* Sleep without the lock. True: a call was made. */
static bool rest (int64_t until_ns)
{
    struct timespec at = { until_ns / 1000000000, until_ns % 1000000000 };
    bool was_called;
    int rc = 0;

    pthread_mutex_lock (&thread.mutex);
    while (!thread.is_called && rc == 0)
        rc = pthread_cond_clockwait (&thread.wake, &thread.mutex,
                                     CLOCK_MONOTONIC, &at);
    was_called = thread.is_called;
    thread.is_called = false;
    pthread_mutex_unlock (&thread.mutex);
    return was_called;
}

static void call (void)
{
    pthread_mutex_lock (&thread.mutex);
    thread.is_called = true;
    pthread_cond_signal (&thread.wake);
    pthread_mutex_unlock (&thread.mutex);
}

/* Until when another thread has seen to every socket; 0: that is past. */
static int64_t seen_to (struct ptl_end *end)
{
    int64_t until
        = atomic_load_explicit (&end->looked_ns, memory_order_relaxed)
        + AWAY_NS;

    return until > ptl_clock_ns () ? until : 0;
}

/* Keep away from threads that poll, even from the lock. */
static void keep_away (struct ptl_end *end)
{
    int64_t until;

    do {
        ptl_unlock ();
        while ((until = seen_to (end)) && !rest (until))
            ;
        ptl_lock ();
    } while (!thread.is_stopping && seen_to (end));
}

static void park (void)
{
    thread.is_parked = true;
    ptl_unlock ();
    rest (PTL_NEVER);
    ptl_lock ();
    thread.is_parked = false;
}

static void *run (void *unused)
{
    struct ptl_end *end;
    unsigned calls = 0;

    (void)unused;
    ptl_lock ();
    end = thread.end;
    while (!thread.is_stopping) {
        if (end->n_calls != calls) {
            calls = end->n_calls;
            keep_away (end);
        }
        else if (end->is_driven)
            park ();
        else
            sleep_in_epoll (end, -1);
        if (!thread.is_stopping && !end->is_driven)
            ptl_end_progress (end, 0);
        if (end->n_waiting > 0)
            pthread_cond_broadcast (&end->woken);
        ptl_let_others (); /* who wants the lock calls */
    }
    ptl_unlock ();
    return NULL;
}

void ptl_progress_start (struct ptl_end *end)
{
    sigset_t all, before;

    if (!ptl_env ()->has_thread)
        return;
    sigfillset (&all);
    pthread_sigmask (SIG_SETMASK, &all, &before);
    thread.end = end;
    thread.is_stopping = false;
    if (pthread_create (&thread.id, NULL, run, NULL) != 0)
        thread.end = NULL;
    pthread_sigmask (SIG_SETMASK, &before, NULL);
}

void ptl_progress_stop (void)
{
    if (!thread.end)
        return;
    thread.is_stopping = true;
    thread.end->is_ending = true; /* so that no other thread clears it */
    ptl_wait_wake (thread.end);
    call ();
    ptl_unlock ();
    pthread_join (thread.id, NULL);
    ptl_lock ();
    thread.end = NULL;
}

void ptl_progress_wake (const struct ptl_end *end)
{
    if (thread.end == end && thread.is_parked)
        call ();
}

#endif
