/* house.h - the namespaces in which ranks run, and the process that keeps them.
 *
 * Ranks of a world share memory and know each other's ids, so all of a node's are
 * in one PID and one IPC namespace, and CRIU writes down and brings back one tree.
 * Any other rank has a house of its own.
 *
 * The first rank that comes starts the process. It goes on when that rank ends,
 * until all ranks have; when a rank's process is gone, however that came about, it
 * kills what is left of it inside.
 */
#ifndef YOD_INIT_HOUSE_H
#define YOD_INIT_HOUSE_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "post.h"

/* before: the signals that criu begins with blocked.
 * images: where the tree is written down; "": it begins.
 * checkpoint: the directory with those of the ranks.
 * server: a command of the shell that starts a PMIx server for the ranks, which
 *   becomes one of the tree; NULL: none.
 * has_server: the tree has one.
 * count: ranks that belong together; is_shared: they find one another. */
struct house_order {
    const char *criu;
    const sigset_t *before;
    const char *images;
    const char *checkpoint;
    const char *server;
    bool has_server;
    int count;
    bool is_shared;
};

/* What an unshare makes. A user has no IPC namespace: CRIU brings one back by writing
 * the kernel's settings of it, as a user of the number 0. */
int house_namespaces (void);

/* A socket to the house of this rank, which is made if it is not there; -1 after a
 * line that says why. */
int house_find (const struct house_order *order);

/* Come in, and take the environment that is for this rank. fds: of a rank that is brought back: those that take the places of its
 * pipes, by the numbers in the file `streams`; POST_FDS, -1: none.
 * Returns process 1, and in `programp` the rank's program if it has been brought
 * back, as the host numbers them; -1 after a line that says why. */
pid_t house_enter (int house, int rank, const int *fds, pid_t *programp);

/* Say what is to be killed when this process ends. 0, or -1 */
int house_tell (int house, pid_t program);

#endif
