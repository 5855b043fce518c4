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
#include "ptl_wait.h"

#define NUMBER_BITS 28
#define NUMBER_COUNT ((1u << NUMBER_BITS) - 1) /* the last one is "none" */
#define FIRST_BUCKETS 64

_Static_assert (PTL_EQ_NONE
                        == ((unsigned)PTL_HANDLE_EQ << NUMBER_BITS
                            | NUMBER_COUNT)
                    && PTL_CT_NONE
                        == ((unsigned)PTL_HANDLE_CT << NUMBER_BITS
                            | NUMBER_COUNT),
                "no object has these");

struct entry {
    struct entry *next; /* in the bucket, or in the list of unused ones */
    void *object;
    uint32_t handle;
};

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
    uint32_t numbers[PTL_HANDLE_KINDS]; /* objects of a kind ever made */
    struct entry **buckets, *unused;
    uint32_t n_buckets, n_entries;
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

/* Nobody is in ptl_abort any more, nor will be: the library has ended. */
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
    struct entry *entry;

    while ((entry = process.unused)) {
        process.unused = entry->next;
        free (entry);
    }
    free (process.buckets);
    process.buckets = NULL;
    process.n_buckets = process.n_entries = 0;
    atomic_store (&process.users, 0);
    forget_abort ();
    ptl_unlock ();
}

/* ---- handles ---- */

/* Numbers of one kind follow one another: the low bits spread them evenly. */
static struct entry **bucket_of (uint32_t handle)
{
    uint32_t kind = handle >> NUMBER_BITS;

    return &process.buckets[(handle + kind * 7) & (process.n_buckets - 1)];
}

static bool grow (void)
{
    uint32_t old_buckets = process.n_buckets;
    struct entry **old = process.buckets, **new, *entry;

    process.n_buckets = old_buckets ? old_buckets * 2 : FIRST_BUCKETS;
    if (!(new = calloc (process.n_buckets, sizeof (*new)))) {
        process.n_buckets = old_buckets;
        return false;
    }
    process.buckets = new;
    for (uint32_t i = 0; i < old_buckets; i++)
        while ((entry = old[i])) {
            old[i] = entry->next;
            entry->next = *bucket_of (entry->handle);
            *bucket_of (entry->handle) = entry;
        }
    free (old);
    return true;
}

static struct entry *find (uint32_t handle)
{
    struct entry *entry;

    if (process.n_buckets == 0)
        return NULL;
    for (entry = *bucket_of (handle); entry; entry = entry->next)
        if (entry->handle == handle)
            return entry;
    return NULL;
}

/* The number that follows; after 2^28 objects, the next that is free. */
static uint32_t next_handle (enum ptl_kind kind)
{
    uint32_t handle;

    do {
        handle = (uint32_t)kind << NUMBER_BITS | process.numbers[kind];
        process.numbers[kind] = (process.numbers[kind] + 1) % NUMBER_COUNT;
    } while (find (handle));
    return handle;
}

int ptl_handle_add (enum ptl_kind kind, void *object, uint32_t *handle)
{
    struct entry *entry = process.unused;

    if (process.n_entries >= process.n_buckets && !grow ())
        return PTL_NO_SPACE;
    if (entry)
        process.unused = entry->next;
    else if (!(entry = malloc (sizeof (*entry))))
        return PTL_NO_SPACE;
    *handle = next_handle (kind);
    entry->handle = *handle;
    entry->object = object;
    entry->next = *bucket_of (*handle);
    *bucket_of (*handle) = entry;
    process.n_entries++;
    return PTL_OK;
}

int ptl_handle_find (uint32_t handle, enum ptl_kind kind, void *objectp)
{
    struct entry *entry;

    if (handle >> NUMBER_BITS != kind || !(entry = find (handle)))
        return PTL_ARG_INVALID;
    *(void **)objectp = entry->object;
    return PTL_OK;
}

enum ptl_kind ptl_handle_kind (uint32_t handle)
{
    return find (handle) ? (enum ptl_kind)(handle >> NUMBER_BITS) : 0;
}

void ptl_handle_forget (uint32_t handle)
{
    struct entry **at, *entry;

    if (handle == 0 || !find (handle))
        return;
    for (at = bucket_of (handle); (*at)->handle != handle;)
        at = &(*at)->next;
    entry = *at;
    *at = entry->next;
    entry->next = process.unused;
    process.unused = entry;
    process.n_entries--;
}
