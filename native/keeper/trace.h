/* trace.h - hold a rank at its exec, or before its end, by tracing it.
 *
 * The kernel stops a traced process after exec and before its first
 * instruction, whatever it is: static, 32-bit, of another libc. Signals that
 * come meanwhile stay pending and are delivered after the release.
 *
 * A rank with flag 128 is traced from its release on, with all its threads. At
 * a signal that will end it all of it is stopped and let go of, so that a
 * debugger can trace it in our place, and the PCT is told. At the PCT's word
 * the signal ends it.
 */
#ifndef YOD_KEEPER_TRACE_H
#define YOD_KEEPER_TRACE_H

#include <stdbool.h>
#include <sys/types.h>

#include "keeper.h"

/* Trace a child that is still ours before its exec.
 *   false  tracing is forbidden here
 */
bool trace_start (pid_t child);

/* Handle a stop of a traced child, as wait reported it.
 *
 * True: it is at its exec and stays stopped. False: it was continued.
 */
bool trace_stopped (pid_t child, int wait_status);

/* Trace a child, and all threads that it will have, from now on. One that stands
 * at its exec is released.
 *   false  tracing is forbidden here: nothing was done
 */
bool trace_on (pid_t child, bool is_at_exec);

/* Release a child that stands at its exec. */
void trace_release (pid_t child);

/* Let go of a child that stands at its exec, and stays there until SIGCONT:
 * others may trace it. */
void trace_leave_stopped (pid_t child);

/* Handle a stop of a traced process or thread, as wait reported it, where it
 * concerns the end of a rank.
 *   true   the rank is held; else nothing was done
 */
bool trace_dying (struct keeper *k, pid_t thread, int wait_status);

/* Let the signal end a rank that is held so; else nothing is done. */
void trace_let_die (struct keeper *k, uint32_t rank);

#endif

