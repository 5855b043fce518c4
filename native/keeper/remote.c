#include "remote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEVICE "/dev/fuse"

__attribute__ ((format (printf, 2, 3)))
static int fail (char problem[REPORT_TEXT_BYTES], const char *format, ...)
{
    va_list arguments;

    va_start (arguments, format);
    vsnprintf (problem, REPORT_TEXT_BYTES, format, arguments);
    va_end (arguments);
    return -1;
}

static int write_text (const char *path, const char *text)
{
    int fd = open (path, O_WRONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return -1;
    n = write (fd, text, strlen (text));
    close (fd);
    return n < 0 ? -1 : 0;
}

/* Who is not root may mount in a user namespace of its own, in which it is who
 * it was. */
static int become_mounter (void)
{
    char map[64];
    uid_t uid = geteuid ();
    gid_t gid = getegid ();

    if (uid == 0)
        return unshare (CLONE_NEWNS);
    if (unshare (CLONE_NEWUSER | CLONE_NEWNS) != 0
        || write_text ("/proc/self/setgroups", "deny") != 0)
        return -1;
    snprintf (map, sizeof (map), "%u %u 1", uid, uid);
    if (write_text ("/proc/self/uid_map", map) != 0)
        return -1;
    snprintf (map, sizeof (map), "%u %u 1", gid, gid);
    return write_text ("/proc/self/gid_map", map);
}

/* With the owner's rights: nobody is to learn of directories by our messages. */
static int open_as_owner (const struct spec *spec, const char *path)
{
    bool is_other = geteuid () == 0 && spec->uid != 0;
    int fd, error;

    if (is_other) {
        setfsgid (spec->gid);
        setfsuid (spec->uid);
    }
    fd = open (path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    error = errno;
    if (is_other) {
        setfsuid (0);
        setfsgid (getegid ());
    }
    errno = error;
    return fd;
}

static int mount_at (const struct spec *spec, const char *path, int *device,
                     char problem[REPORT_TEXT_BYTES])
{
    char options[128], target[32];
    int directory = open_as_owner (spec, path), status;

    if (directory < 0)
        return fail (problem, "--remote-io needs a directory of this name on "
                     "this node, an empty one will do (%s): %.90s",
                     strerror (errno), path);
    *device = open (DEVICE, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (*device < 0) {
        close (directory);
        return fail (problem, "--remote-io needs " DEVICE " on this node: %s",
                     strerror (errno));
    }
    snprintf (options, sizeof (options),
              "fd=%d,rootmode=40000,user_id=%u,group_id=%u", *device,
              spec->uid, spec->gid);
    snprintf (target, sizeof (target), "/proc/self/fd/%d", directory);
    status = mount ("yod", target, "fuse.yod", MS_NOSUID | MS_NODEV, options);
    if (status != 0) {
        fail (problem, "--remote-io cannot be mounted on this node (%s): "
              "%.120s", strerror (errno), path);
        close (*device);
    }
    close (directory);
    return status;
}

/* Nothing is started before the PCT's socket has the descriptors. */
static void send_all (struct outbox *box)
{
    struct pollfd out = { .fd = box->socket, .events = POLLOUT };

    while (!report_flush (box))
        poll (&out, 1, -1);
}

int remote_mount (const struct spec *spec, struct outbox *box,
                  char problem[REPORT_TEXT_BYTES])
{
    const struct spec_strings *paths = &spec->remote;

    if (paths->count == 0)
        return 0;
    if (become_mounter () != 0
        || mount (NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0)
        return fail (problem, "--remote-io needs a mount namespace, which "
                     "this node does not let uid %u make: %s", geteuid (),
                     strerror (errno));
    /* What a user mounts must not lead programs that have more rights. */
    if (prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return fail (problem, "no_new_privs: %s", strerror (errno));
    for (size_t i = 0; i < paths->count; i++) {
        struct report *report;
        int device = -1;

        if (mount_at (spec, paths->list[i], &device, problem) != 0)
            return -1;
        report = report_add (box, REPORT_MOUNTED, (uint32_t) i);
        report->fds = FD_MOUNT;
        box->fds[box->n_fds++] = device;
        send_all (box);
    }
    return 0;
}

void remote_learn_owners (const struct spec *spec)
{
    struct stat status;

    for (size_t i = 0; geteuid () != 0 && i < spec->remote.count; i++)
        (void) stat (spec->remote.list[i], &status);
}
