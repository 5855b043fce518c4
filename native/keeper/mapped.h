/* mapped.h - which MPI library a running process has mapped.
 *
 * For programs that a rank becomes by exec or starts: the hold library is in
 * its first program only, so that no user meets it. One file of /proc is read.
 */
#ifndef YOD_KEEPER_MAPPED_H
#define YOD_KEEPER_MAPPED_H

#include <stdbool.h>
#include <sys/types.h>

#include "message.h"

/* Whether the process runs the file that `path` names. */
bool mapped_is_program (pid_t unix_pid, const char *path);

/* Copy the path of the MPI library whose code the process has into `text`, of
 * one that is too long the end after three dots.
 *   false  it has none, or its maps can not be read
 */
bool mapped_find (pid_t unix_pid, char text[static CLAIM_BYTES]);

#endif
