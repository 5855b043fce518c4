/* fuzz.h - what the targets share: a world to attack, and checks after it.
 *
 * An input is read as a list of small steps. The ends are made anew for each,
 * so that an input by itself does what it did; what the ends need for good is
 * made by the first of all. Time is ours: it stands still until a step moves
 * it, and then the timers that are due fire.
 *
 * Link as tests/fuzz/targets.py does.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "portals4_ext.h"
#include "ptl_auth.h"
#include "ptl_wire.h"

/* Of the address sanitizer; gcc has no header for it. */
size_t __sanitizer_get_current_allocated_bytes (void);

#define LOOPBACK 0x7f000001u
#define SILENT_ROUNDS 1000

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

/* Holds, or the input is a finding. */
#define HOLDS(condition)                                                \
    do {                                                                \
        if (!(condition)) {                                             \
            fprintf (stderr, "%s:%d: %s\n", __FILE__, __LINE__,         \
                     #condition);                                       \
            abort ();                                                   \
        }                                                               \
    } while (0)

static const uint8_t partition_key[PTLX_KEY_BYTES] = { 1, 2, 3 };

/* ---- the input; what is missing at its end is zero ---- */

struct input {
    const uint8_t *at;
    size_t left;
};

static inline uint8_t take8 (struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->at++;
}

static inline size_t take_bytes (struct input *in, void *to, size_t length)
{
    size_t n = length < in->left ? length : in->left;

    memset (to, 0, length);
    if (n > 0)
        memcpy (to, in->at, n);
    in->at += n;
    in->left -= n;
    return n;
}

/* ---- time ---- */

static struct {
    int64_t ns; /* past what the clock said, since the start */
    int fds[4];
    int64_t due_ns[4];
} fuzz_time = { .ns = INT64_C (1000000000000), .fds = { -1, -1, -1, -1 } };

int __real_clock_gettime (clockid_t clock, struct timespec *t);
int __wrap_clock_gettime (clockid_t clock, struct timespec *t);
int __real_timerfd_settime (int fd, int flags, const struct itimerspec *at,
                            struct itimerspec *old);
int __wrap_timerfd_settime (int fd, int flags, const struct itimerspec *at,
                            struct itimerspec *old);

int __wrap_clock_gettime (clockid_t clock, struct timespec *t)
{
    if (clock != CLOCK_MONOTONIC)
        return __real_clock_gettime (clock, t);
    t->tv_sec = fuzz_time.ns / 1000000000;
    t->tv_nsec = fuzz_time.ns % 1000000000;
    return 0;
}

static inline void fire (int fd)
{
    struct itimerspec at_once = { .it_value.tv_nsec = 1 };

    __real_timerfd_settime (fd, TFD_TIMER_ABSTIME, &at_once, NULL);
}

int __wrap_timerfd_settime (int fd, int flags, const struct itimerspec *at,
                            struct itimerspec *old)
{
    int64_t due = at->it_value.tv_sec * INT64_C (1000000000)
        + at->it_value.tv_nsec;

    int i = 0;

    (void)flags;
    (void)old;
    while (fuzz_time.fds[i] != fd && fuzz_time.fds[i] >= 0)
        HOLDS (++i < 4);
    fuzz_time.fds[i] = fd;
    fuzz_time.due_ns[i] = due;
    if (due <= fuzz_time.ns)
        fire (fd);
    return 0;
}

/* The timers of the last input are no more. */
static inline void forget_timers (void)
{
    for (int i = 0; i < 4; i++)
        fuzz_time.fds[i] = -1;
}

static inline void pass_ms (int64_t ms)
{
    fuzz_time.ns += ms * 1000000;
    for (int i = 0; i < 4; i++)
        if (fuzz_time.fds[i] >= 0 && fuzz_time.due_ns[i] <= fuzz_time.ns)
            fire (fuzz_time.fds[i]);
}

/* ---- ends ---- */

struct end {
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq, own_eq; /* own: of nobody but the neighbour */
    ptl_process_t id;
    struct ptlx_event last; /* of the own queue */
    int n_own, n_lost;
};

static inline void end_open (struct end *end, struct ptlx_config *config)
{
    memset (end, 0, sizeof (*end));
    HOLDS (PtlInit () == PTL_OK);
    HOLDS (PtlxNIInit (config, &end->ni) == PTL_OK);
    HOLDS (PtlEQAlloc (end->ni, 16, &end->eq) == PTL_OK);
    HOLDS (PtlEQAlloc (end->ni, 8, &end->own_eq) == PTL_OK);
    HOLDS (PtlxNotify (end->ni, end->eq) == PTL_OK);
    HOLDS (PtlGetPhysId (end->ni, &end->id) == PTL_OK);
}

static inline void end_close (struct end *end)
{
    HOLDS (PtlxNIFini (end->ni, 0) == PTL_OK);
    PtlFini ();
}

/* One turn of the loop; is there more to do? */
static inline bool end_turn (struct end *end)
{
    struct ptlx_event events[32];
    struct pollfd poll_fd = { .events = POLLIN };
    int count;

    HOLDS (PtlxEvents (end->ni, end->eq, events, 32, &count) == PTL_OK);
    for (int i = 0; i < count; i++)
        end->n_lost += events[i].type == PTLX_EVENT_PEER_LOST;
    HOLDS (PtlxEvents (end->ni, end->own_eq, events, 32, &count) == PTL_OK);
    if (count > 0)
        end->last = events[count - 1];
    end->n_own += count;
    HOLDS (PtlxFd (end->ni, &poll_fd.fd) == PTL_OK);
    return poll (&poll_fd, 1, 0) > 0;
}

/* Let it do all that is due now. What never comes to rest is a finding. */
static inline void end_drive (struct end *end)
{
    int rounds = 0;

    while (end_turn (end))
        HOLDS (++rounds < SILENT_ROUNDS);
}

/* ---- a neighbour, who is honest ---- */

#define NEIGHBOUR_INDEX 5
#define NEIGHBOUR_BITS 77

static char neighbour_source[8] = "neighbr", neighbour_target[8];

/* An entry for the neighbour alone; `nid`, `pid` are its id. */
static inline void open_for_neighbour (const struct end *end, uint32_t nid,
                                       uint32_t pid)
{
    ptl_pt_index_t index;
    ptl_handle_me_t handle;
    ptl_me_t me = {
        .start = neighbour_target,
        .length = sizeof (neighbour_target),
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE,
        .match_id.phys = { nid, pid },
        .match_bits = NEIGHBOUR_BITS,
        .ct_handle = PTL_CT_NONE,
    };

    memset (neighbour_target, 0, sizeof (neighbour_target));
    HOLDS (PtlPTAlloc (end->ni, 0, end->own_eq, NEIGHBOUR_INDEX, &index)
           == PTL_OK);
    HOLDS (PtlMEAppend (end->ni, index, &me, PTL_PRIORITY_LIST, NULL, &handle)
           == PTL_OK);
}

/* Its put arrives, whatever others have done. Entry 1 of its address table is
 * the end's path. */
static inline void check_neighbour (struct end *end, struct end *neighbour)
{
    ptl_md_t md = {
        .start = neighbour_source,
        .length = sizeof (neighbour_source),
        .eq_handle = neighbour->own_eq,
        .ct_handle = PTL_CT_NONE,
    };
    ptl_process_t by_path = { .phys = { 1, PTL_PID_ANY } };
    ptl_handle_md_t handle;
    int before = neighbour->n_own, rounds = 0;

    HOLDS (PtlMDBind (neighbour->ni, &md, &handle) == PTL_OK);
    HOLDS (PtlPut (handle, 0, 8, PTL_ACK_REQ, by_path, NEIGHBOUR_INDEX,
                   NEIGHBOUR_BITS, 0, NULL, 0)
           == PTL_OK);
    while (neighbour->n_own < before + 2) { /* SEND and ACK */
        HOLDS (++rounds < SILENT_ROUNDS);
        if (!end_turn (end) && !end_turn (neighbour))
            pass_ms (1);
    }
    HOLDS (neighbour->last.type == PTL_EVENT_ACK);
    HOLDS (neighbour->last.ni_fail == PTL_NI_OK);
    HOLDS (strcmp (neighbour_target, "neighbr") == 0);
}

/* ---- what an input may cost ---- */

struct cost {
    size_t bytes;
    int fd; /* lowest that is free */
};

static inline int lowest_fd (void)
{
    int fd = fcntl (0, F_DUPFD, 0);

    HOLDS (fd >= 0);
    close (fd);
    return fd;
}

static inline struct cost cost_now (void)
{
    return (struct cost){ __sanitizer_get_current_allocated_bytes (),
                          lowest_fd () };
}

static inline void check_cost (struct cost before, size_t most_bytes)
{
    HOLDS (__sanitizer_get_current_allocated_bytes ()
           <= before.bytes + most_bytes);
}

/* Everything has been given back. */
static inline void check_leaks (struct cost before)
{
    struct cost after = cost_now ();

    HOLDS (after.bytes == before.bytes);
    HOLDS (after.fd == before.fd);
}

/* ---- the attacker's sockets ---- */

static char fuzz_directory[] = "/tmp/yod-fuzz-XXXXXX";

static inline void remove_directory (void)
{
    rmdir (fuzz_directory);
}

static inline void make_directory (void)
{
    HOLDS (mkdtemp (fuzz_directory));
    atexit (remove_directory);
}

static inline struct sockaddr_un path_of (const char *name)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };

    snprintf (un.sun_path, sizeof (un.sun_path), "%s/%s", fuzz_directory,
              name);
    return un;
}

/* -1: not taken (the backlog is full). */
static inline int dial (const struct sockaddr_un *un)
{
    int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    HOLDS (fd >= 0);
    if (connect (fd, (const struct sockaddr *)un, sizeof (*un)) == 0)
        return fd;
    close (fd);
    return -1;
}

static inline int listen_at (const struct sockaddr_un *un)
{
    int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    HOLDS (fd >= 0);
    unlink (un->sun_path);
    HOLDS (bind (fd, (const struct sockaddr *)un, sizeof (*un)) == 0);
    HOLDS (listen (fd, 16) == 0);
    return fd;
}

/* Write it all while the end reads. False: it has hung up or reads no more. */
static inline bool give (struct end *end, int fd, const void *data,
                         size_t length)
{
    const uint8_t *at = data;
    ssize_t n;

    for (int rounds = 0; length > 0 && rounds < 200; rounds++) {
        n = send (fd, at, length, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return false;
        if (n < 0)
            end_turn (end);
        at += n > 0 ? n : 0;
        length -= n > 0 ? (size_t)n : 0;
    }
    return length == 0;
}

/* Read exactly so much while the end writes. False: it did not come. */
static inline bool get (struct end *end, int fd, void *data, size_t length)
{
    uint8_t *at = data;
    ssize_t n;

    for (int rounds = 0; length > 0 && rounds < 20; rounds++) {
        n = recv (fd, at, length, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return false;
        if (n < 0)
            end_turn (end);
        at += n > 0 ? n : 0;
        length -= n > 0 ? (size_t)n : 0;
    }
    return length == 0;
}

#endif
