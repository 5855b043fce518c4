#include "group.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define INTO_GROUP 0x200000000ull       /* CLONE_INTO_CGROUP, <linux/sched.h> */

/* struct clone_args of <linux/sched.h>, as of Linux 5.7. */
struct clone_call {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack,
             stack_size, tls, set_tid, set_tid_size, cgroup;
};

static int enter (int directory, const char *procs)
{
    int fd = openat (directory, procs, O_WRONLY | O_CLOEXEC);
    ssize_t n;
    int error;

    if (fd < 0)
        return -1;
    n = write (fd, "0", 1);             /* whoever writes */
    error = errno;
    close (fd);
    errno = error;
    return n == 1 ? 0 : -1;
}

int group_enter (const char *job)
{
    int directory, ranks;

    if (!*job)
        return NO_GROUP;
    directory = open (job, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return GROUP_CLOSED;
    ranks = openat (directory, "ranks", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (ranks < 0 || enter (directory, "keeper/cgroup.procs") != 0)
        return GROUP_CLOSED;
    close (directory);
    return ranks;
}

pid_t group_fork (int ranks_fd)
{
    struct clone_call call = {
        .flags = INTO_GROUP,
        .exit_signal = SIGCHLD,
        .cgroup = (uint64_t) ranks_fd,
    };
    long child;

    if (ranks_fd < 0)
        return fork ();
    child = syscall (SYS_clone3, &call, sizeof (call));
    if (child >= 0 || (errno != ENOSYS && errno != E2BIG && errno != EINVAL))
        return (pid_t) child;
    child = fork ();
    if (child == 0 && enter (ranks_fd, "cgroup.procs") != 0)
        _exit (126);
    return (pid_t) child;
}
