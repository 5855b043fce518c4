/* spawn.h - the process that makes a batch of ranks.
 *
 * A fork copies page tables, and the first writes behind it copy pages: a third
 * of what a rank costs before its program. A child that has its maker's memory
 * until its exec costs none of it, but its maker stands still until then; and a
 * directory or a program of the owner's may hang. The keeper must not: so it
 * forks a spawner, which looks at the program once and makes the ranks of the
 * batch, each as a child of the keeper.
 */
#ifndef YOD_KEEPER_SPAWN_H
#define YOD_KEEPER_SPAWN_H

#include "start.h"

/* Whether a spawner may make this rank. Others are not to wait for each other: a
 * file for output may be a FIFO, and without the hold library a rank waits for
 * the keeper before its exec. */
bool spawn_may_make (const struct starter *starter, size_t index);

/* Fork the spawner of the ranks [first, first + count), which have streams and
 * are of one program. It ends when it has made them; some may be left if it is
 * killed, or cannot make any.
 *   its process id; 0: none could be made
 */
pid_t spawn_batch (struct starter *starter, size_t first, size_t count);

#endif
