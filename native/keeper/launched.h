/* launched.h - whose launcher gave a process its environment.
 *
 * A rank may start a launcher of another kind, whose processes have its wire-up
 * and a world of their own: yod must not judge those. /proc has the environment
 * that a process was given when its program began.
 */
#ifndef YOD_KEEPER_LAUNCHED_H
#define YOD_KEEPER_LAUNCHED_H

#include <stdbool.h>
#include <sys/types.h>

#include "spec.h"

/* Whether a process began with no other variables of launchers than its rank
 * was given (it may have fewer).
 *
 * False: it has others; its loader only lists what it would load; or it cannot
 * be told: the file cannot be read, or the process has written over it.
 */
bool launched_by_us (pid_t unix_pid, const struct spec *spec,
                     const struct spec_rank *rank, int pmi_fd);

#endif
