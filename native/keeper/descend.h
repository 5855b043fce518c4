/* descend.h - find the processes below one, and kill everything below this one.
 *
 * As a subreaper the keeper becomes the parent of every orphan, so what once
 * was below it stays below it: setsid and double forks change nothing. One
 * pass stops all that it finds, until a walk finds nothing that still runs and
 * could fork; then it kills all of it. The caller reaps, and makes
 * passes until it has no child.
 */
#ifndef YOD_KEEPER_DESCEND_H
#define YOD_KEEPER_DESCEND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* One pass over the descendants of this process.
 *   how many processes were sent SIGKILL; 0 also where /proc can not be read
 */
size_t descend_kill (void);

/* Copy the descendants of a process into `list`, the nearest first; of more than
 * `most` (1 or more) some, and of a family of a thousand threads some.
 *   how many; 0 also where /proc can not be read
 */
size_t descend_list (pid_t unix_pid, pid_t list[], size_t most);

/* Whether every thread of a process is on its way out: nothing that it is sent
 * now ends it. Before its sockets close this is so.
 *   false where /proc can not be read
 */
bool descend_is_exiting (pid_t unix_pid);

#endif
