/* lines.h - lines out of bytes that come in pieces of any size, and onto pipes. */
#ifndef YOD_INIT_LINES_H
#define YOD_INIT_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "relay.h"

struct lines {
    char bytes[2 * RELAY_LINE_BYTES + 1];
    size_t first, count;                /* those that have not been taken */
    char under;                         /* the zero behind the last line */
    bool is_cut;
};

/* Read what there is. False: end of file, or a line that is too long. */
bool lines_read (struct lines *lines, int fd);

/* The next whole line with its end, and a zero behind; it stays until the next
 * call for the same lines. NULL: none is there. */
char *lines_next (struct lines *lines, size_t *lengthp);

/* Write all of a text; stop without an error when the reader has gone. */
void lines_write (int fd, const char *text, size_t n);

#endif
