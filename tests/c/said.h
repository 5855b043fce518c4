/* said.h - what a program says on standard error.
 *
 *     said_begin ();
 *     ...                    goes to memory
 *     text = said_end ();    until here; valid until the next time
 */
#ifndef SAID_H
#define SAID_H

#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

#define SAID_BYTES 4096

static int said_file = -1, said_before = -1;
static char said_text[SAID_BYTES];

static inline void said_begin (void)
{
    if (said_file < 0)
        said_file = memfd_create ("said", MFD_CLOEXEC);
    CHECK (said_file >= 0 && ftruncate (said_file, 0) == 0);
    CHECK (lseek (said_file, 0, SEEK_SET) == 0);
    said_before = dup (STDERR_FILENO);
    CHECK (said_before >= 0 && dup2 (said_file, STDERR_FILENO) >= 0);
}

static inline const char *said_end (void)
{
    ssize_t n;

    CHECK (dup2 (said_before, STDERR_FILENO) >= 0);
    close (said_before);
    n = pread (said_file, said_text, SAID_BYTES - 1, 0);
    CHECK (n >= 0);
    said_text[n] = '\0';
    return said_text;
}

static inline bool is_one_line (const char *text)
{
    return *text && strchr (text, '\n') == text + strlen (text) - 1;
}

#endif
