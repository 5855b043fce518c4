/* pair.h - two processes that measure together.
 *
 * The first is the parent, takes the time and prints it; each is bound to a
 * processor of its own where there are two. A pipe each way carries what they
 * have to know of each other, and makes them meet.
 *
 * A figure is the median of many laps, so that other work on the machine, which
 * stops some of them for milliseconds, does not count.
 */
#ifndef PAIR_H
#define PAIR_H

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAIR_LAPS = 50, PAIR_LIMIT_S = 50 };

struct pair {
    int rank; /* 0: the parent */
    int in, out;
    pid_t child;
};

static inline void pair_need (bool holds, const char *what)
{
    if (holds)
        return;
    fprintf (stderr, "%s: %s\n", what, strerror (errno));
    exit (1);
}

/* Bind to the nth of the processors that we may use. */
static inline void pair_bind (int nth)
{
    cpu_set_t all, one;

    pair_need (sched_getaffinity (0, sizeof (all), &all) == 0, "affinity");
    if (CPU_COUNT (&all) < 2)
        return;
    CPU_ZERO (&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET (cpu, &all) && nth-- == 0)
            CPU_SET (cpu, &one);
    pair_need (sched_setaffinity (0, sizeof (one), &one) == 0, "affinity");
}

static inline void pair_start (struct pair *pair)
{
    int down[2], up[2];

    pair_need (pipe (down) == 0 && pipe (up) == 0, "pipe");
    pair_need ((pair->child = fork ()) >= 0, "fork");
    pair->rank = pair->child == 0;
    pair->in = pair->rank ? down[0] : up[0];
    pair->out = pair->rank ? up[1] : down[1];
    close (pair->rank ? down[1] : up[1]);
    close (pair->rank ? up[0] : down[0]);
    if (pair->rank)
        prctl (PR_SET_PDEATHSIG, SIGKILL);
    alarm (PAIR_LIMIT_S); /* who spins for what is lost ends, too */
    pair_bind (pair->rank);
}

/* Give the other `mine` and get its own; both have come here by then. */
static inline void pair_swap (const struct pair *pair, const void *mine,
                              void *theirs, size_t size)
{
    pair_need (write (pair->out, mine, size) == (ssize_t)size, "pipe");
    pair_need (read (pair->in, theirs, size) == (ssize_t)size, "pipe");
}

static inline void pair_meet (const struct pair *pair)
{
    char mine = 0, theirs;

    pair_swap (pair, &mine, &theirs, 1);
}

/* The child's end, and its status as ours. */
static inline int pair_end (const struct pair *pair)
{
    int status;

    if (pair->rank)
        return 0;
    pair_need (waitpid (pair->child, &status, 0) == pair->child, "wait");
    return status != 0;
}

static inline int64_t pair_now_ns (void)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The time that each of `steps` steps takes. */
struct pair_clock {
    uint64_t per_lap, step, laps;
    int64_t began;
    int64_t lap[PAIR_LAPS];
};

static inline void pair_clock_start (struct pair_clock *clock, uint64_t steps)
{
    clock->per_lap = steps / PAIR_LAPS ? steps / PAIR_LAPS : 1;
    clock->step = clock->laps = 0;
    clock->began = pair_now_ns ();
}

static inline void pair_clock_step (struct pair_clock *clock)
{
    int64_t now;

    if (++clock->step % clock->per_lap || clock->laps == PAIR_LAPS)
        return;
    now = pair_now_ns ();
    clock->lap[clock->laps++] = now - clock->began;
    clock->began = now;
}

static inline int pair_is_longer (const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;

    return (a > b) - (a < b);
}

/* Nanoseconds of a step, in the lap in the middle. */
static inline double pair_clock_read (struct pair_clock *clock)
{
    qsort (clock->lap, clock->laps, sizeof (*clock->lap), pair_is_longer);
    return (double)clock->lap[clock->laps / 2] / (double)clock->per_lap;
}

/* Memory of whole pages, written once. */
static inline void *pair_memory (size_t size)
{
    void *memory = aligned_alloc (4096, (size + 4095) / 4096 * 4096);

    pair_need (memory != NULL, "memory");
    memset (memory, 1, size);
    return memory;
}

/* What a message says of itself: its number, in its first eight bytes. */
static inline void pair_mark (void *message, uint64_t number)
{
    memcpy (message, &number, sizeof (number));
}

static inline void pair_check (const void *message, uint64_t number)
{
    uint64_t seen;

    memcpy (&seen, message, sizeof (seen));
    if (seen == number)
        return;
    fprintf (stderr, "message %llu says %llu\n", (unsigned long long)number,
             (unsigned long long)seen);
    exit (1);
}

#endif
