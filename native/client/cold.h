/* cold.h - the command without a server: `yod-cold` or `yodjob-cold`, in Python.
 */
#ifndef YOD_CLIENT_COLD_H
#define YOD_CLIENT_COLD_H

#include <stdbool.h>

/* Become that program, which lies beside this one, with these arguments. The
 * interpreter is `python3` beside it, else that of the release of Python that
 * yod was installed for, else the first in PATH. Where there is none, say so
 * and exit.
 *   why   said instead, where the user forbids cold launches; empty: nothing is
 *         to be launched, which nobody forbids
 */
_Noreturn void cold_run (int argc, char *argv[], const char *why);

/* Whether the user has set YOD_COLD=never, which is about launches alone. */
bool cold_is_forbidden (void);

/* One line on standard error, and the exit status of a failure of ours. */
__attribute__ ((format (printf, 1, 2)))
_Noreturn void cold_fail (const char *format, ...);

#endif
