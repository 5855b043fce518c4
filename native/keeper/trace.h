/* trace.h - hold a rank at its exec by tracing it.
 *
 * The kernel stops a traced process after exec and before its first
 * instruction, whatever it is: static, 32-bit, of another libc. Signals that
 * come meanwhile stay pending and are delivered after the release.
 */
#ifndef YOD_KEEPER_TRACE_H
#define YOD_KEEPER_TRACE_H

#include <stdbool.h>
#include <sys/types.h>

/* Trace a child that is still ours before its exec.
 *   false  tracing is forbidden here
 */
bool trace_start (pid_t child);

/* Handle a stop of a traced child, as wait reported it.
 *
 * True: it is at its exec and stays stopped. False: it was continued.
 */
bool trace_stopped (pid_t child, int wait_status);

/* Release a child that stands at its exec. */
void trace_release (pid_t child);

#endif
