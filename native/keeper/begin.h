/* begin.h - start the ranks in batches, and report the process of each. */
#ifndef YOD_KEEPER_BEGIN_H
#define YOD_KEEPER_BEGIN_H

#include "keeper.h"

/* Whether a next batch is to be started now. */
bool begin_may (const struct keeper *k);

/* Start it: its ranks have streams then, and processes soon. */
void begin_some (struct keeper *k);

/* Learn which processes spawners have made by now, and report them: before what
 * such a process has said or done is looked at. `reaped` is one that has just
 * been reaped, or 0. */
void begin_learn (struct keeper *k, pid_t reaped);

/* A child that is no rank has ended. What a spawner has left the keeper forks;
 * when spawners have ended, where the owner may have no more processes. */
void begin_ended (struct keeper *k, pid_t child);

/* Kill the spawners, and make none any more: ranks that the keeper forks wait for
 * files of the owner's in processes of their own, which signals can end. */
void begin_hurry (struct keeper *k);

/* The ends of these ranks are about to be reported. The keeper holds the writing
 * ends of the output of the first KEPT_OUTPUTS ranks until then: else the end of
 * each stream would wake the PCT, and the report once more. */
void begin_drop_outputs (struct keeper *k);

#endif
