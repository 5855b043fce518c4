/* keep.h - the keeper of one program: a process of its own between the starter
 * and the program's processes.
 *
 * As a subreaper it inherits what the program leaves behind, and kills it when
 * the program has ended. Its signals are blocked since before it was forked:
 *   SIGUSR1   end: kill all processes below
 *   SIGUSR2   with a value: send that signal to each rank's process group
 */
#ifndef YOD_STARTER_KEEP_H
#define YOD_STARTER_KEEP_H

#include <sys/types.h>

#include "order.h"

#define KEEP_END SIGUSR1
#define KEEP_SIGNAL SIGUSR2

/* Run the program, report its end and exit with status 0.
 *   starter   the parent, whose death ends the program
 *   fd        where reports go
 */
_Noreturn void keep (const struct order *order, pid_t starter, int fd);

#endif
