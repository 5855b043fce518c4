/* keeper.h - the state of one keeper: its job's ranks on this node.
 *
 * Each part of the keeper has the state as its first argument:
 *   prepare.h  become the owner's process with the specification read
 *   begin.h    start the ranks
 *   hold.h     hold each at its entry, release them
 *   look.h     find out which MPI library a released rank uses
 *   reap.h     report how ranks ended
 *   trace.h    hold ranks at their exec, and before a signal ends them
 *   signals.h  send signals to ranks, kill what is left
 * keeper.c has the commands and the loop. One thread; one state a process.
 * main.c makes it a program.
 */
#ifndef YOD_KEEPER_KEEPER_H
#define YOD_KEEPER_KEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "main.h"
#include "message.h"
#include "report.h"
#include "spec.h"
#include "start/start.h"

#define KILL_WAIT_MIN_MS 10             /* between passes over what is left */
#define KILL_WAIT_MAX_MS 1000
#define BATCH_RANKS 8
#define BATCHES_MAX 8                   /* that are made at a time */

enum rank_state {
    RANK_NOT_STARTED,
    RANK_STARTING,
    RANK_HELD,
    RANK_RELEASED,
    RANK_ENDED,
};

struct rank {
    pid_t unix_pid;
    int pmi_fd;                         /* its number there; -1: none */
    enum rank_state state;
    enum held_how how;
    uint64_t sent;                      /* bit signo - 1: we sent it that */
    uint64_t owed;                      /* likewise: once it has a process */
    int dying_of;                       /* trace.h: this signal; 0: it is not */
};

/* Ranks [first, first + count), which are being made (start/spawn.h). */
struct batch {
    pid_t spawner;                      /* 0: it has ended, or there was none */
    size_t first, count;
};

struct keeper {
    struct spec *spec;
    struct starter starter;
    struct rank *ranks;
    size_t n_begun;                     /* ranks [0, n_begun) got streams, or failed */
    struct batch batches[BATCHES_MAX];
    size_t n_batches;
    bool is_hurried;                    /* no spawner is made any more */
    bool flushes_now;                   /* no report waits for others */
    int64_t begun_ms;                   /* monotonic: the first batch */
    bool lacks_fds;                     /* until one of the batches is made */
    size_t n_held;                      /* came to their entry */
    int64_t held_at_ms;                 /* monotonic: the first of them */
    int64_t ended_at_ms;                /* the first whose end is to be sent */
    bool is_go;
    size_t go_owed;                     /* bytes that the pipe has not taken */
    bool is_ahead;                      /* the byte of the only rank is there */
    int64_t hang_up_ms;                 /* monotonic: hang up again; 0: do not */
    bool is_stopped;                    /* all descendants, by SIGSTOP */
    bool has_spared;                    /* tracers have had their time */
    bool is_ending;
    bool has_children;
    int signal_fd;
    struct outbox box;
    size_t n_dying_held;                /* trace.h: so many there have been */
    size_t n_dying;                     /* were killed, not yet reaped */
    int kill_wait_ms;
    int64_t go_ms;                     /* monotonic */
    int look_ms;                        /* after go; 0: look no more */
    size_t seen_index;                  /* whose library this is: */
    char seen[CLAIM_BYTES];
};

/* The rank's number in its world. */
static inline uint32_t keeper_rank (const struct keeper *k, size_t index)
{
    return k->spec->ranks[index].rank;
}

static inline bool keeper_has_begun_all (const struct keeper *k)
{
    return k->n_begun == k->spec->n_ranks;
}

static inline uint64_t keeper_signal_bit (int signo)
{
    return (uint64_t) 1 << (signo - 1);
}

#endif
