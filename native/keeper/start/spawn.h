/* spawn.h - the process that makes several ranks.
 *
 * A fork copies page tables, and the first writes behind it copy pages: a third
 * of what a rank costs before its program. A child that has its maker's memory
 * until its exec costs none of it, but its maker stands still until then; and a
 * directory or a program of the owner's may hang. The keeper must never stand
 * still, so it forks a spawner, which makes the ranks, each as a child of the
 * keeper.
 */
#ifndef YOD_KEEPER_SPAWN_H
#define YOD_KEEPER_SPAWN_H

#include "start.h"

/* Whether spawners make this rank. One that may wait before its exec, for its
 * files or for the keeper, would stop those behind it. */
bool spawn_may_make (const struct starter *starter, size_t index);

/* Whether one spawner may make both: they have one directory. */
bool spawn_may_join (const struct starter *starter, size_t one, size_t other);

/* Fork the spawner of the ranks [first, first + count), which have streams. When
 * it ends some may be left: it was killed, or the kernel has refused one.
 *   its process id; 0: there is none
 */
pid_t spawn_batch (struct starter *starter, size_t first, size_t count);

#endif
