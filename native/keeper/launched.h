/* launched.h - whose launcher gave a process its environment.
 *
 * A rank may start a launcher of another kind. The processes of that one have
 * its wire-up and a world of their own, which is not for us to judge. What a
 * process was given when its program began is in one file of /proc.
 */
#ifndef YOD_KEEPER_LAUNCHED_H
#define YOD_KEEPER_LAUNCHED_H

#include <stdbool.h>
#include <sys/types.h>

#include "spec.h"

/* Whether the environment that a process began with has no variable of a
 * launcher's but those that its rank was given. One that lacks these too has
 * none of another's.
 *   false  it has others; or nobody can tell: the file can not be read, or the
 *          process has written over it
 */
bool launched_by_us (pid_t unix_pid, const struct spec *spec,
                     const struct spec_rank *rank, int pmi_fd);

#endif
