/* hold.h - hold each rank at its entry, release them.
 *
 * The child processes write messages (message.h) into one pipe while they are
 * on their way to user code. A rank is held by the hold library, by tracing
 * or before exec; the way it is held decides how it is released.
 */
#ifndef YOD_KEEPER_HOLD_H
#define YOD_KEEPER_HOLD_H

#include "keeper.h"

/* Read the messages that children have written. */
void hold_take_messages (struct keeper *k);

/* This rank has reached its entry: report it, and release it at once where go
 * has been given. */
void hold_at_entry (struct keeper *k, size_t index, enum held_how how);

/* Go: release the ranks that are held, and each other one when it is. */
void hold_release_all (struct keeper *k);

/* Write the go bytes that are owed, one for each preloaded rank. What the pipe
 * does not take now is written when ranks have read some. */
void hold_write_go (struct keeper *k);

#endif
