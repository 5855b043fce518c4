#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../keeper/clock.h"
#include "release.h"

#define NAME_BYTES 80

_Static_assert (sizeof (RELEASE) - 1 == WIRE_RELEASE_BYTES, "release");

/* The texts are those of partition/find/warm.py. */
__attribute__ ((format (printf, 2, 3)))
static bool refuse (char why[PLACE_WHY_ROOM], const char *format, ...)
{
    va_list arguments;

    va_start (arguments, format);
    vsnprintf (why, PLACE_WHY_ROOM, format, arguments);
    va_end (arguments);
    return false;
}

/* --- the way ------------------------------------------------------------- */

/* A runtime directory of another user survives `su`. */
static bool is_own_directory (const char *path)
{
    struct stat status;

    return stat (path, &status) == 0 && S_ISDIR (status.st_mode)
           && status.st_uid == geteuid ();
}

/* The directory of the server's socket.
 *   false   there is none, or its path is too long
 */
static bool find_directory (char *path, size_t room)
{
    const char *chosen = getenv ("YOD_LAUNCH_SERVER");
    const char *runtime = getenv ("XDG_RUNTIME_DIR");
    const char *state = getenv ("XDG_STATE_HOME"), *home = getenv ("HOME");
    int n;

    if (chosen && *chosen == '/')
        n = snprintf (path, room, "%s", chosen);
    else if (runtime && *runtime && is_own_directory (runtime))
        n = snprintf (path, room, "%s/yod", runtime);
    else if (state && *state == '/')
        n = snprintf (path, room, "%s/yod", state);
    else if (home && *home)
        n = snprintf (path, room, "%s/.local/state/yod", home);
    else
        return false;
    return n >= 0 && (size_t) n < room;
}

/* The socket's name in its directory: hosts may share a home. */
static void name_of_host (char name[NAME_BYTES])
{
    struct utsname host;

    snprintf (name, NAME_BYTES, "launch.%s",
              uname (&host) == 0 ? host.nodename : "");
}

/* Name the socket; a long path is reached from its directory, which is opened.
 *   false   there is no such directory
 */
static bool name_socket (const char *directory, struct sockaddr_un *address,
                         int *directory_fd)
{
    size_t room = sizeof (address->sun_path);
    char name[NAME_BYTES];

    name_of_host (name);
    *directory_fd = -1;
    address->sun_family = AF_UNIX;
    if (snprintf (address->sun_path, room, "%s/%s", directory, name)
        < (int) room)
        return true;
    *directory_fd = open (directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    snprintf (address->sun_path, room, "/proc/self/fd/%d/%s",
              *directory_fd, name);
    return *directory_fd >= 0;
}

static int connect_to (const char *directory)
{
    struct sockaddr_un address = { 0 };
    int fd, directory_fd, rc;

    if (!name_socket (directory, &address, &directory_fd))
        return -1;
    fd = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        rc = connect (fd, (struct sockaddr *) &address, sizeof (address));
        if (rc != 0) {                  /* also when its queue is full */
            close (fd);
            fd = -1;
        }
    }
    if (directory_fd >= 0)
        close (directory_fd);
    return fd;
}

/* --- the server ---------------------------------------------------------- */

static bool is_plain_user (void)
{
    uid_t real, effective, saved;
    gid_t group, effective_group, saved_group;

    return getresuid (&real, &effective, &saved) == 0
           && getresgid (&group, &effective_group, &saved_group) == 0
           && real == effective && real == saved
           && group == effective_group && group == saved_group;
}

static bool is_of_our_user (int fd, uint32_t *server, char why[])
{
    struct ucred peer = { 0 };
    socklen_t size = sizeof (peer);

    if (getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0
        || peer.uid != getuid ())
        return refuse (why, "the socket is another user's");
    *server = (uint32_t) peer.pid;
    return true;
}

static bool is_hello (const struct wire_hello *hello)
{
    return hello->head.kind == SERVER_HELLO
           && hello->head.value == WIRE_VERSION && hello->magic == WIRE_MAGIC
           && hello->server > 0 && hello->server <= INT_MAX
           && hello->liveness_ms > 0;
}

static bool read_hello (int fd, int hello_ms, struct wire_hello *hello,
                        uint32_t server, char why[])
{
    struct pollfd readable = { .fd = fd, .events = POLLIN };
    int64_t until = clock_ms () + hello_ms, left;
    char packet[sizeof (*hello) + 1];
    ssize_t n;

    do {
        left = until - clock_ms ();
        n = poll (&readable, 1, left > 0 ? (int) left : 0);
    } while (n < 0 && errno == EINTR && left > 0);
    if (n <= 0)
        return refuse (why, "the launch server (process %u) does not answer",
                       server);
    n = recv (fd, packet, sizeof (packet), 0);
    if (n <= 0)
        return refuse (why, "the launch server (process %u) takes no more "
                            "launches now: launches_count is reached, or no "
                            "descriptor is left", server);
    if (n == sizeof (*hello))
        memcpy (hello, packet, sizeof (*hello));
    return (n == sizeof (*hello) && is_hello (hello))
           || refuse (why, "the launch server is of another release");
}

/* The server's processes see what the client would see. */
static bool is_of_our_world (const struct wire_hello *hello, char why[])
{
    static const struct { const char *name, *what; } kinds[WIRE_NAMESPACES] = {
        { "mnt", "mount" }, { "pid", "process id" }, { "user", "user" },
        { "net", "network" }, { "ipc", "IPC" }, { "uts", "UTS" },
    };
    struct stat status;
    char path[32];

    if (memcmp (hello->release, RELEASE, WIRE_RELEASE_BYTES) != 0)
        return refuse (why, "the launch server is of another release");
    if (stat ("/", &status) != 0 || status.st_dev != hello->root_device
        || status.st_ino != hello->root_inode)
        return refuse (why, "the launch server has another root directory");
    for (int i = 0; i < WIRE_NAMESPACES; i++) {
        snprintf (path, sizeof (path), "/proc/self/ns/%s", kinds[i].name);
        if (stat (path, &status) != 0
            || status.st_ino != hello->namespaces[i])
            return refuse (why, "the launch server has another %s namespace",
                           kinds[i].what);
    }
    return true;
}

int place_connect (uint32_t *server, char why[PLACE_WHY_ROOM])
{
    const char *chosen = getenv ("YOD_LAUNCH_SERVER");
    char directory[PATH_MAX];
    int fd;

    if (chosen && strcmp (chosen, "cold") == 0) {
        refuse (why, "YOD_LAUNCH_SERVER=cold is set");
        return -1;
    }
    if (!is_plain_user ()) {
        refuse (why, "this process has rights of another user");
        return -1;
    }
    if (!find_directory (directory, sizeof (directory))
        || (fd = connect_to (directory)) < 0) {
        refuse (why, "no launch server; `yodctl up` starts one");
        return -1;
    }
    if (is_of_our_user (fd, server, why))
        return fd;
    close (fd);
    return -1;
}

bool place_meet (int socket, uint32_t server, struct wire_hello *hello,
                 int hello_ms, char why[PLACE_WHY_ROOM])
{
    return read_hello (socket, hello_ms, hello, server, why)
           && is_of_our_world (hello, why);
}
