/* begin.h - start the ranks in batches, and report the process of each. */
#ifndef YOD_KEEPER_BEGIN_H
#define YOD_KEEPER_BEGIN_H

#include "keeper.h"

/* Whether to start another batch now. */
bool begin_may (const struct keeper *k);

/* Start it: its ranks have streams then, and processes soon. */
void begin_some (struct keeper *k);

/* Find out which processes the spawners have made, and report them. Call this
 * before a message or the end of a process is looked at: it may be of one of them.
 * `reaped` is the process that has just been reaped, or 0. */
void begin_learn (struct keeper *k, pid_t reaped);

/* A child that is not a rank has ended. If it was a spawner, fork the ranks that
 * it has not made. Where the owner may have no more processes, these wait until
 * another spawner has ended. */
void begin_ended (struct keeper *k, pid_t child);

/* Kill the spawners, and make none any more: ranks that the keeper forks wait for
 * files of the owner's in processes of their own, which signals can end. */
void begin_hurry (struct keeper *k);

/* The ends of these ranks are about to be reported. The keeper holds the writing
 * ends of the output of the first KEPT_OUTPUTS ranks until then: else the end of
 * each stream would wake the PCT, and the report once more. */
void begin_drop_outputs (struct keeper *k);

#endif
