/* descend.h - find the processes below one; stop, continue and kill all below this one.
 *
 * As a subreaper the keeper becomes the parent of every orphan, so a process
 * stays below it whatever it does (setsid, double forks). One pass stops all
 * that it finds, until a walk finds no process that still runs and could fork;
 * then it kills them all. The caller reaps, and makes passes until it has no
 * child.
 */
#ifndef YOD_KEEPER_DESCEND_H
#define YOD_KEEPER_DESCEND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* One pass over the descendants of this process.
 *   spared   children that live on, with all below them
 *   how many processes were sent SIGKILL; 0 also where /proc can not be read
 */
size_t descend_kill (const pid_t spared[], size_t n_spared);

/* Stop all descendants of this process. Each is stopped before its children
 * are listed, so none is left that runs; nothing happens where /proc cannot
 * be read. */
void descend_stop (void);

/* Continue all descendants of this process. */
void descend_continue (void);

/* Copy the descendants of a process into `list`, the nearest first: at most
 * `most` (1 or more), and not all of a process with a thousand threads.
 *
 * Returns how many; 0 also where /proc cannot be read.
 */
size_t descend_list (pid_t unix_pid, pid_t list[], size_t most);

/* Whether every thread of a process is exiting, so that no signal that it is
 * sent now ends it. This is so before its sockets close. False where /proc
 * cannot be read. */
bool descend_is_exiting (pid_t unix_pid);

#endif
