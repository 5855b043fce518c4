/* group.h - the control group of a job (cgroup v2), where its PCT has made one.
 *
 * The PCT, which may be root, makes a directory for the job with two groups in
 * it. The keeper enters `keeper` before it becomes the owner; each rank is
 * created in `ranks`, which is its owner's. So whoever freezes the ranks does
 * not freeze the keeper.
 */
#ifndef YOD_KEEPER_GROUP_H
#define YOD_KEEPER_GROUP_H

#include <sys/types.h>

#define NO_GROUP (-1)
#define GROUP_CLOSED (-2)

/* Enter the keeper's group below `job`, and open the one of its ranks.
 *   a descriptor; NO_GROUP when `job` is empty; GROUP_CLOSED and errno when
 *   this process may not enter it
 */
int group_enter (const char *job);

/* Fork a process that is in the group of this descriptor, or in ours for
 * NO_GROUP. Returns what fork returns. On Linux before 5.7 the child enters
 * the group itself, and ends with status 126 if it can not.
 */
pid_t group_fork (int ranks_fd);

#endif
