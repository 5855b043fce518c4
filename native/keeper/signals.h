/* signals.h - signals to ranks, and the end of all that is left below. */
#ifndef YOD_KEEPER_SIGNALS_H
#define YOD_KEEPER_SIGNALS_H

#include "keeper.h"

#define ALL_RANKS UINT32_MAX
#define HANG_UP_AGAIN_MS 1000           /* after the first time */

/* Send a signal to one rank or to ALL_RANKS: to the process group where the
 * signal is for all of it (spread.h) or the rank has RANK_SIGNALS_GROUP, else to
 * the rank's process alone. Ranks that have ended by now are reaped first: this
 * signal is not what ended them. A rank that has no process yet is owed it, and
 * what is to end ranks ends the wait for their files. */
void signal_ranks (struct keeper *k, uint32_t rank, int signo);

/* Send what is owed to a rank that has a process now. */
void signal_pay (struct keeper *k, size_t index);

/* Obey a command: as signal_ranks, but SIGSTOP and SIGCONT to ALL_RANKS reach
 * every descendant, also those that have left the groups of their ranks, and
 * SIGTERM to ALL_RANKS continues what was stopped so. */
void signal_obey (struct keeper *k, uint32_t rank, int signo);

/* Hang up the terminal of a rank again when its time has come. Returns the
 * milliseconds until then; -1: it need not be done. */
int signal_when_due (struct keeper *k);

/* Kill what is left once all that was killed before has been reaped, or when
 * that takes long (`has_waited`): a process that the kernel does not let go,
 * or one of another uid. */
void signal_kill_rest (struct keeper *k, bool has_waited);

#endif
