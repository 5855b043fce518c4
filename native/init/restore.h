/* restore.h - has CRIU bring a tree of processes back. */
#ifndef YOD_INIT_RESTORE_H
#define YOD_INIT_RESTORE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A pipe whose other end is elsewhere, and what takes its place. */
struct pipe_again {
    int fd;
    char name[64];                      /* as /proc showed the old one */
};

/* Open a directory of images as a path of this process and its children. Who could write
 * there could have any program run as this user, so others may not.
 * path: room for RESTORE_PATH_BYTES. 0, or -1 with the reason in `trouble` */
#define RESTORE_PATH_BYTES 32
int restore_open (const char *directory, char *path, char *trouble, size_t trouble_bytes);

/* Run `criu restore` for the images in a directory.
 * path: that restore_open has given for it.
 * has_connections: TCP connections between its processes come back, too.
 * before: the signals that criu begins with blocked.
 * Returns process 1 of the tree, a child of this process, or -1 with the reason in
 * `trouble`. */
pid_t restore (const char *criu, const char *directory, const char *path, bool has_connections,
               const sigset_t *before,
               const struct pipe_again *pipes, size_t n_pipes,
               char *trouble, size_t trouble_bytes);

#endif
