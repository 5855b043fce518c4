/* mapped.h - which MPI library a process has mapped, or says that it had.
 *
 * For programs that a rank becomes by exec or starts: the hold library is in
 * its first program only, so that no user meets it. One file of /proc is read.
 */
#ifndef YOD_KEEPER_MAPPED_H
#define YOD_KEEPER_MAPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "message.h"

/* Whether the process runs the file that `path` names. */
bool mapped_is_program (pid_t unix_pid, const char *path);

/* Copy the path of the MPI library whose code the process has into `text`, of
 * one that is too long the end after three dots.
 *   false  it has none, or its maps can not be read
 */
bool mapped_find (pid_t unix_pid, char text[static CLAIM_BYTES]);

/* What a rank that was preloaded tells at its exit, of itself. The hold library
 * writes it to memory shared with the keeper when the program returns or calls
 * exit. The user can write there too, so a claim is checked before it is passed
 * on. */

/* Make the claims file for so many ranks, all empty. It takes no memory before
 * a rank maps its own part.
 *
 * Returns its descriptor, closed on exec; -1 when it cannot be made.
 */
int claim_make_file (size_t n_ranks);

/* Copy the claim of rank number `index` into `text`. False: there is none, or
 * it is no line of text. */
bool claim_read (int fd, size_t index, char text[static CLAIM_BYTES]);

/* Whether a text can be shown: it has no control characters. */
bool claim_is_line (const char *text);

#endif
