#include "ptl_process.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "portals4.h"
#include "ptl_end.h"
#include "ptl_handle.h"
#include "ptl_wait.h"

struct process {
    pthread_mutex_t lock;
    atomic_uint users;     /* PtlInit without PtlFini */
    atomic_bool is_forked; /* a child of the process that made the objects */
    atomic_uint n_wanting; /* threads that wait for the lock */
    bool is_watched;       /* the fork handler is installed */
    atomic_bool is_aborted;
    atomic_uint n_aborting; /* threads in ptl_abort */
    atomic_int abort_fd;    /* readable once aborted; -1: there is none */
    struct ptl_source abort; /* the same in the epoll sets */
};

static struct process process
    = { .lock = PTHREAD_MUTEX_INITIALIZER, .abort_fd = -1 };

/* ---- the lock ---- */

pthread_mutex_t *ptl_the_lock (void)
{
    return &process.lock;
}

void ptl_lock (void)
{
    if (pthread_mutex_trylock (&process.lock) == 0)
        return;
    atomic_fetch_add (&process.n_wanting, 1);
    pthread_mutex_lock (&process.lock);
    atomic_fetch_sub (&process.n_wanting, 1);
}

void ptl_unlock (void)
{
    pthread_mutex_unlock (&process.lock);
}

void ptl_let_others (void)
{
    if (atomic_load_explicit (&process.n_wanting, memory_order_relaxed) == 0)
        return;
    ptl_unlock ();
    sched_yield ();
    ptl_lock ();
}

/* ---- calls ---- */

static bool is_begun (void)
{
    return !atomic_load_explicit (&process.is_forked, memory_order_relaxed)
        && atomic_load_explicit (&process.users, memory_order_acquire) > 0;
}

int ptl_enter (void)
{
    if (!is_begun ())
        return PTL_NO_INIT;
    ptl_lock ();
    if (atomic_load_explicit (&process.users, memory_order_relaxed) > 0)
        return PTL_OK;
    ptl_unlock (); /* it ended while we waited */
    return PTL_NO_INIT;
}

int ptl_leave (struct ptl_end *end, int rc)
{
    if (end) {
        ptl_end_settle (end);
        ptl_end_signal (end);
    }
    ptl_unlock ();
    return rc;
}

/* ---- abort ---- */

bool ptl_is_aborted (void)
{
    return atomic_load_explicit (&process.is_aborted, memory_order_relaxed);
}

void ptl_abort (void)
{
    uint64_t one = 1;
    int error = errno, fd;

    atomic_fetch_add (&process.n_aborting, 1);
    if (is_begun ()) {
        atomic_store (&process.is_aborted, true);
        if ((fd = atomic_load (&process.abort_fd)) >= 0)
            (void)!write (fd, &one, sizeof (one));
    }
    atomic_fetch_sub (&process.n_aborting, 1);
    errno = error;
}

int ptl_abort_watch (struct ptl_end *end)
{
    int fd = atomic_load (&process.abort_fd);

    if (fd < 0) {
        if ((fd = eventfd (0, EFD_NONBLOCK | EFD_CLOEXEC)) < 0)
            return PTL_FAIL;
        process.abort.fd = fd;
        atomic_store (&process.abort_fd, fd);
    }
    return ptl_end_watch (end, &process.abort, PTL_SOURCE_ABORT);
}

void ptl_abort_seen (struct ptl_end *end)
{
    epoll_ctl (end->epoll_fd, EPOLL_CTL_DEL, process.abort.fd, NULL);
    ptl_wait_wake (end);
}

/* The library has ended: no thread is or comes into ptl_abort. */
static void forget_abort (void)
{
    int fd = atomic_exchange (&process.abort_fd, -1);

    while (atomic_load (&process.n_aborting) > 0)
        sched_yield ();
    atomic_store (&process.is_aborted, false);
    if (fd >= 0)
        close (fd);
}

/* ---- begin and end ---- */

static void forked (void)
{
    atomic_store (&process.is_forked, atomic_load (&process.users) > 0);
}

int ptl_process_init (void)
{
    int rc = PTL_OK;

    if (atomic_load (&process.is_forked))
        return PTL_FAIL;
    ptl_lock ();
    if (!process.is_watched && pthread_atfork (NULL, NULL, forked) != 0)
        rc = PTL_FAIL;
    else {
        process.is_watched = true;
        atomic_fetch_add (&process.users, 1);
    }
    ptl_unlock ();
    return rc;
}

bool ptl_process_fini (void)
{
    if (ptl_enter () != PTL_OK)
        return false;
    if (atomic_load (&process.users) == 1)
        return true;
    atomic_fetch_sub (&process.users, 1);
    ptl_unlock ();
    return false;
}

void ptl_process_ended (void)
{
    ptl_handle_free_all ();
    atomic_store (&process.users, 0);
    forget_abort ();
    ptl_unlock ();
}
