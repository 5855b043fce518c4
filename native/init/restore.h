/* restore.h - has CRIU bring a rank back. */
#ifndef YOD_INIT_RESTORE_H
#define YOD_INIT_RESTORE_H

#include <signal.h>
#include <sys/types.h>

/* Run `criu restore` for the images in a directory, with our standard streams in
 * place of those that the file `streams` there names.
 * before: the signals that criu begins with blocked.
 * Returns the init of the rank, a child of this process, or -1 after a line that
 * says why it is not there. */
pid_t restore (const char *criu, const char *directory, const sigset_t *before);

#endif
