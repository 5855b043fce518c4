/* claim.h - what a preloaded rank says of itself as it exits: its MPI library.
 *
 * The start library writes it to memory shared with us when the program
 * returns or calls exit. It is the user's memory too: a claim about one rank,
 * checked before it is passed on.
 */
#ifndef YOD_KEEPER_CLAIM_H
#define YOD_KEEPER_CLAIM_H

#include <stdbool.h>
#include <stddef.h>

#include "message.h"

/* Make the claims file of so many ranks, all empty. It takes no memory before
 * a rank maps its own.
 *   its descriptor, closed on exec; -1 when there can be none
 */
int claim_make_file (size_t n_ranks);

/* Copy the claim of rank number `index` into `text`.
 *   false  there is none, or it is no line of text
 */
bool claim_read (int fd, size_t index, char text[static CLAIM_BYTES]);

/* Whether a text can be shown: it has no control characters. */
bool claim_is_line (const char *text);

#endif
