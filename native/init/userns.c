#include "userns.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fds.h"
#include "inside.h"

#define PLACE_OF_ROOT "/run"
#define PLACE_OF_USERS "/proc/tty/ldisc"        /* an empty directory of the kernel's */
#define PLACE_OPTIONS "mode=700,size=64k"
#define NOBODY 65534
#define MAP_BYTES 64

bool userns_is_needed (void)
{
    return geteuid () != 0;
}

const char *userns_place (void)
{
    return userns_is_needed () ? PLACE_OF_USERS : PLACE_OF_ROOT;
}

/* --- make ---------------------------------------------------------------------- */

static int write_own (const char *path, const char *text)
{
    int fd = open (path, O_WRONLY | O_CLOEXEC);
    ssize_t length = (ssize_t) strlen (text), n = write (fd, text, (size_t) length);
    int error = errno;

    if (fd >= 0)
        close (fd);
    errno = error;
    return n == length ? 0 : -1;
}

/* Every id means itself. Without a privilege of root's a map has one. */
static int map_ids (uid_t uid, gid_t gid)
{
    char uids[MAP_BYTES], gids[MAP_BYTES];

    snprintf (uids, sizeof (uids), "%u %u 1", uid, uid);
    snprintf (gids, sizeof (gids), "%u %u 1", gid, gid);
    return write_own ("/proc/self/setgroups", "deny") != 0
           || write_own ("/proc/self/uid_map", uids) != 0
           || write_own ("/proc/self/gid_map", gids) != 0 ? -1 : 0;
}

int userns_make (char *trouble, size_t trouble_bytes)
{
    uid_t uid = geteuid ();
    gid_t gid = getegid ();
    const char *what = NULL;

    if (!userns_is_needed ())
        return 0;
    if (unshare (CLONE_NEWUSER | CLONE_NEWNS) != 0)
        what = "cannot make a user namespace";
    else if (map_ids (uid, gid) != 0)
        what = "cannot map ids into a user namespace";
    else if (mount ("yod-init", PLACE_OF_USERS, "tmpfs", MS_NOSUID | MS_NODEV, PLACE_OPTIONS) != 0)
        what = "cannot mount a directory at " PLACE_OF_USERS;
    if (what)
        snprintf (trouble, trouble_bytes, "%s: %s", what, strerror (errno));
    return what ? -1 : 0;
}

/* --- join ---------------------------------------------------------------------- */

static int join (pid_t pid, const char *kind, int flag)
{
    char path[MAP_BYTES];
    int fd, done;

    snprintf (path, sizeof (path), "/proc/%d/ns/%s", (int) pid, kind);
    fd = open (path, O_RDONLY | O_CLOEXEC);
    done = fd < 0 ? -1 : setns (fd, flag);
    if (fd >= 0)
        close (fd);
    return done;
}

int userns_join (pid_t pid)
{
    return userns_is_needed () ? join (pid, "user", CLONE_NEWUSER) : 0;
}

int userns_join_mounts (pid_t pid)
{
    char directory[PATH_MAX];

    if (!userns_is_needed ())
        return 0;
    if (!getcwd (directory, sizeof (directory)) || join (pid, "mnt", CLONE_NEWNS) != 0
        || chdir (directory) != 0)
        return -1;
    fds_open_again ();
    return 0;
}

/* --- run ----------------------------------------------------------------------- */

int userns_keep_capabilities (void)
{
    static const int kept[] = { CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE };
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    if (!userns_is_needed ())
        return 0;
    if (syscall (SYS_capget, &header, data) != 0)
        return -1;
    for (size_t i = 0; i < sizeof (kept) / sizeof (kept[0]); i++)
        data[CAP_TO_INDEX (kept[i])].inheritable |= CAP_TO_MASK (kept[i]);
    if (syscall (SYS_capset, &header, data) != 0)
        return -1;
    for (size_t i = 0; i < sizeof (kept) / sizeof (kept[0]); i++)
        if (prctl (PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, kept[i], 0, 0) != 0)
            return -1;
    return 0;
}

static int fail (const char *what)
{
    fprintf (stderr, "yod-init: %s: %s\n", what, strerror (errno));
    return EXIT_NEVER_STARTED;
}

static int run (char **words)
{
    if (userns_keep_capabilities () != 0)
        return fail ("cannot keep capabilities");
    execv (words[0], words);
    return fail (words[0]);
}

int userns_enter (pid_t pid, char **words)
{
    if (userns_join (pid) != 0 || userns_join_mounts (pid) != 0)
        return fail ("cannot enter the user namespace");
    return run (words);
}

/* What the kernel shows of this process in /proc is root's until it is dumpable. */
static int become_nobody (void)
{
    return setgroups (0, NULL) != 0 || setresgid (NOBODY, NOBODY, NOBODY) != 0
           || setresuid (NOBODY, NOBODY, NOBODY) != 0
           || prctl (PR_SET_DUMPABLE, 1, 0, 0, 0) != 0 ? -1 : 0;
}

int userns_try (char **words)
{
    char trouble[256];

    if (!userns_is_needed () && become_nobody () != 0)
        return fail ("cannot become nobody");
    if (userns_make (trouble, sizeof (trouble)) != 0) {
        fprintf (stderr, "yod-init: %s\n", trouble);
        return EXIT_NEVER_STARTED;
    }
    return run (words);
}
