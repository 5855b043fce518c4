/* cold.h - the launch without a server: `yod-cold` runs it, in Python.
 */
#ifndef YOD_CLIENT_COLD_H
#define YOD_CLIENT_COLD_H

#include <stdbool.h>

/* Become `yod-cold`, which lies beside this program, with these arguments. The
 * interpreter is `python3` beside it, else that of the release of Python that
 * yod was installed for, else the first in PATH. Where there is none, say so
 * and exit.
 *   why   said instead, where the user forbids cold launches; empty: nothing is
 *         to be launched, which nobody forbids
 */
_Noreturn void cold_run (int argc, char *argv[], const char *why);

/* Whether the user has set YOD_COLD=never. */
bool cold_is_forbidden (void);

/* One line on standard error, and exit status 125. */
__attribute__ ((format (printf, 1, 2)))
_Noreturn void cold_fail (const char *format, ...);

#endif
