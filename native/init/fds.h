/* fds.h - descriptors that the saver of a checkpoint finds by their numbers
 * (partition/checkpoint/dumping.py), and others. */
#ifndef YOD_INIT_FDS_H
#define YOD_INIT_FDS_H

#include <stddef.h>

enum {
    FD_DOWN = 60,                       /* the pipes of pmi.h */
    FD_UP = 61,
    FD_INIT = 62,                       /* pidfds: process 1, and the program */
    FD_PROGRAM = 63,
    FD_OTHERS = 64,                     /* and above */
};

/* Move a descriptor above those; it closes when a program is executed. Returns
 * the new one, or -1 */
int fds_above (int fd);

/* Move it to a number; it closes when a program is executed. 0, or -1 */
int fds_put (int fd, int number);

/* Close all but the standard streams and these. */
void fds_close_others (const int *kept, size_t n);

/* Open the files that are standard streams by their names, as far as these lead to
 * them: the old ones belong to another mount namespace, which CRIU does not know. */
void fds_open_again (void);

#endif
