/* append.h - what a launch leaves in the user's files: the user log, a report.
 *
 * Written with the client's own rights, relative to its directory. Nothing
 * waits long: a pipe that takes nothing is given a second.
 */
#ifndef YOD_CLIENT_APPEND_H
#define YOD_CLIENT_APPEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define APPEND_WAIT_MS 1000

struct append {
    bool is_open;                       /* more follows */
    int fd;                             /* -1: it could not be opened */
    int problem;                        /* errno of what was written so far */
};

/* Add to a file, which is made where it is missing.
 *   true   it is the last part: *problem is 0 or an errno
 */
bool append_data (struct append *append, const char *path, uint32_t flags,
                  const char *data, size_t size, int *problem);

#endif
