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

/* Enter the keeper's group below `job`, and open the one of its ranks.
 *   a descriptor; NO_GROUP when `job` is empty; -2 with errno
 */
int group_enter (const char *job);

/* Fork a process that is in the group of this descriptor, or in ours for
 * NO_GROUP. As fork, and errno is the child's if it can not enter the group
 * (Linux before 5.7 knows no way but to enter it as the child).
 */
pid_t group_fork (int ranks_fd);

#endif
