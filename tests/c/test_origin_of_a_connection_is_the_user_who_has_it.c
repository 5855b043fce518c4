/* Of a Unix socket and of TCP within this host the kernel says whose the other
 * end is, whatever address of 127.0.0.0/8 it has taken; a connection of which
 * the other end has been closed is that network's. */
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "ptl_origin.h"

#define NOBODY 65534

static struct sockaddr_in loopback (uint32_t address)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl (address) };
}

static int listener (struct sockaddr_in *in)
{
    int fd = socket (AF_INET, SOCK_STREAM, 0);
    socklen_t size = sizeof (*in);

    *in = loopback (LOOPBACK);
    CHECK (bind (fd, (struct sockaddr *)in, size) == 0);
    CHECK (listen (fd, 8) == 0);
    CHECK (getsockname (fd, (struct sockaddr *)in, &size) == 0);
    return fd;
}

static int connected_from (uint32_t address, const struct sockaddr_in *to)
{
    struct sockaddr_in from = loopback (address);
    int fd = socket (AF_INET, SOCK_STREAM, 0);

    CHECK (bind (fd, (struct sockaddr *)&from, sizeof (from)) == 0);
    CHECK (connect (fd, (const struct sockaddr *)to, sizeof (*to)) == 0);
    return fd;
}

static uint64_t origin_of_next (int listening, bool is_unix)
{
    int fd = accept (listening, NULL, NULL);
    uint64_t origin = ptl_origin_of (fd, is_unix);

    close (fd);
    return origin;
}

static void over_tcp (uint64_t self)
{
    struct sockaddr_in in;
    int fd = listener (&in), one = connected_from (LOOPBACK, &in),
        other = connected_from (LOOPBACK + 9, &in);

    CHECK (origin_of_next (fd, false) == self);
    CHECK (origin_of_next (fd, false) == self);
    close (one);
    close (other);
    close (connected_from (LOOPBACK + 9, &in));
    CHECK (origin_of_next (fd, false) == 0x7f000000u);
    close (fd);
}

/* Another user's, if this one may become it. */
static void of_another_user (void)
{
    struct sockaddr_in in;
    int fd = listener (&in);
    pid_t child = fork ();

    if (child == 0) {
        CHECK (setuid (NOBODY) == 0);
        (void)connected_from (LOOPBACK, &in);
        pause ();
    }
    CHECK (origin_of_next (fd, false) == (PTL_ORIGIN_USER | NOBODY));
    kill (child, SIGKILL);
    waitpid (child, NULL, 0);
    close (fd);
}

int main (void)
{
    uint64_t self = PTL_ORIGIN_USER | geteuid ();
    int fds[2];

    CHECK (socketpair (AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    CHECK (ptl_origin_of (fds[0], true) == self);
    close (fds[0]);
    close (fds[1]);
    over_tcp (self);
    if (geteuid () == 0)
        of_another_user ();
    return 0;
}
