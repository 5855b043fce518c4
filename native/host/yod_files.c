#include "yod_files.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/securebits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert (sizeof (gid_t) == sizeof (uint32_t), "groups are passed as is");

#ifdef SYS_setgroups32
#define SETGROUPS SYS_setgroups32
#else
#define SETGROUPS SYS_setgroups
#endif

/* The first descriptor has no side effects, not even on a device or a FIFO.
 * The second names the same file, whatever its path leads to by now; the
 * kernel looks at the permission to read it. */
static int open_plain (const char *path, int path_only)
{
    char again[32];
    struct stat status;
    int fd, at = open (path, O_PATH | O_CLOEXEC);

    if (at < 0)
        return -errno;
    if (path_only)
        return at;
    if (fstat (at, &status) < 0)
        fd = -errno;
    else if (!S_ISREG (status.st_mode))
        fd = -EINVAL;
    else {
        snprintf (again, sizeof (again), "/proc/self/fd/%d", at);
        fd = open (again, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0)
            fd = -errno;
    }
    close (at);
    return fd;
}

/* Attributes that the kernel changes with the ids for file access. */
struct saved {
    uid_t uid;
    gid_t gid;
    int n_groups;
    gid_t *groups;
    int dumpable;
    int death_signal;
};

static int save (struct saved *saved)
{
    saved->n_groups = getgroups (0, NULL);
    if (saved->n_groups < 0)
        return -errno;
    saved->groups = malloc (((size_t)saved->n_groups + 1) * sizeof (gid_t));
    if (!saved->groups)
        return -ENOMEM;
    saved->n_groups = getgroups (saved->n_groups, saved->groups);
    saved->dumpable = prctl (PR_GET_DUMPABLE, 0, 0, 0, 0);
    saved->death_signal = 0;
    prctl (PR_GET_PDEATHSIG, &saved->death_signal, 0, 0, 0);
    if (saved->n_groups >= 0)
        return 0;
    free (saved->groups);
    return -EINVAL;
}

/* setfsuid and setfsgid report no error; a call with -1 asks for the current
 * id. */
static bool has_ids (uid_t uid, gid_t gid)
{
    return (uid_t)setfsuid ((uid_t)-1) == uid
        && (gid_t)setfsgid ((gid_t)-1) == gid;
}

/* The raw system call: the C library's function changes all threads. */
static bool take_groups (const void *groups, size_t count)
{
    return syscall (SETGROUPS, count, groups) == 0;
}

/* If the own ids cannot be restored, end: the daemon must not go on as another
 * user. */
static void restore (const struct saved *saved)
{
    setfsuid (saved->uid);
    setfsgid (saved->gid);
    if (!take_groups (saved->groups, (size_t)saved->n_groups)
        || !has_ids (saved->uid, saved->gid))
        abort ();
    if (saved->dumpable == 1)
        prctl (PR_SET_DUMPABLE, 1, 0, 0, 0);
    if (saved->death_signal != 0)
        prctl (PR_SET_PDEATHSIG, saved->death_signal, 0, 0, 0);
    free (saved->groups);
}

int yod_open_as (uint32_t uid, uint32_t gid, const uint32_t *groups,
                 size_t n_groups, const char *path, int path_only)
{
    struct saved saved;
    int fd;

    if (uid == geteuid ())
        return open_plain (path, path_only);
    /* The kernel may keep capabilities (securebits): then the ids alone decide
     * nothing. */
    if (prctl (PR_GET_SECUREBITS, 0, 0, 0, 0) & SECBIT_NO_SETUID_FIXUP)
        return -EPERM;
    if ((fd = save (&saved)) < 0)
        return fd;
    if (!take_groups (groups, n_groups)) {
        free (saved.groups);
        return -EPERM;
    }
    saved.gid = (gid_t)setfsgid (gid);
    saved.uid = (uid_t)setfsuid (uid);
    fd = has_ids (uid, gid) ? open_plain (path, path_only) : -EPERM;
    restore (&saved);
    return fd;
}

int yod_punch (int fd, uint64_t offset, uint64_t length)
{
    int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

    return fallocate (fd, mode, (off_t)offset, (off_t)length) < 0 ? -errno : 0;
}
