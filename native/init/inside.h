/* inside.h - process 1 of a rank's namespace. */
#ifndef YOD_INIT_INSIDE_H
#define YOD_INIT_INSIDE_H

#include <signal.h>

#define EXIT_NEVER_STARTED 127          /* as a shell has it */
#define BY_SIGNAL "ended by "           /* name of an init, and the number behind */

/* Signals that the kernel raises for what a process does. 0 ends them. */
extern const int faults[];

/* Start a program as the leader of a process group, reap what becomes nobody's,
 * pass signals on to the group, and end when the program does.
 * words: the program's file, then its arguments.
 * before: the signals that the program begins with blocked.
 * heard: the signals that are passed on; they are blocked. */
_Noreturn void be_init (char **words, const sigset_t *before,
                        const sigset_t *heard);

#endif
