/* claim.h - which MPI library a preloaded rank tells at its exit.
 *
 * The hold library writes it to memory shared with the keeper when the program
 * returns or calls exit. The user can write there too, so a claim is checked
 * before it is passed on.
 */
#ifndef YOD_KEEPER_CLAIM_H
#define YOD_KEEPER_CLAIM_H

#include <stdbool.h>
#include <stddef.h>

#include "message.h"

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
