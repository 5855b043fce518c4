/* shared.h - files in /dev/shm that processes of a tree share by their names.
 *
 * CRIU takes files without a name, but of one with a name only the name; and in
 * /dev/shm there is none of it on another node, or after the end of the job.
 */
#ifndef YOD_INIT_SHARED_H
#define YOD_INIT_SHARED_H

#include <stddef.h>
#include <sys/types.h>

/* Copy those that a process or one below it has open or mapped to a directory
 * below that of the images. 0, or -1 after a line */
int shared_keep (pid_t init, const char *images);

struct shared_files {
    int *fds;
    size_t n;
};

/* Copy them to /dev/shm again. They stay open, so that nobody takes them for
 * files of no use. 0, or -1 with the reason in `trouble` */
int shared_put_back (const char *images, struct shared_files *files,
                     char *trouble, size_t trouble_bytes);
void shared_close (struct shared_files *files);

#endif
