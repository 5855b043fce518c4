/* Each read and write moves few bytes, or is interrupted, or would block
 * although it need not: everything arrives all the same.
 * link: -Wl,--wrap=recvmsg,--wrap=sendmsg,--wrap=recv,--wrap=accept4
 * link: -Wl,--wrap=epoll_wait
 */
#include <sys/epoll.h>
#include <sys/socket.h>

#include "scenario.h"

ssize_t __real_recvmsg (int fd, struct msghdr *message, int flags);
ssize_t __real_sendmsg (int fd, const struct msghdr *message, int flags);
ssize_t __real_recv (int fd, void *data, size_t length, int flags);
int __real_accept4 (int fd, struct sockaddr *address, socklen_t *length,
                    int flags);
int __real_epoll_wait (int fd, struct epoll_event *events, int room,
                       int timeout_ms);
ssize_t __wrap_recvmsg (int fd, struct msghdr *message, int flags);
ssize_t __wrap_sendmsg (int fd, const struct msghdr *message, int flags);
ssize_t __wrap_recv (int fd, void *data, size_t length, int flags);
int __wrap_accept4 (int fd, struct sockaddr *address, socklen_t *length,
                    int flags);
int __wrap_epoll_wait (int fd, struct epoll_event *events, int room,
                       int timeout_ms);

static size_t most; /* bytes a call; 0: as many as there are */
static unsigned interrupted, blocked; /* of 8 calls */
static unsigned seed;

static void describe (void)
{
    fprintf (stderr, "at most %zu bytes, %u of 8 interrupted, %u blocked\n",
             most, interrupted, blocked);
}

static unsigned pick (unsigned below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static bool fails (bool may_block)
{
    unsigned n = pick (8);

    if (n < interrupted)
        errno = EINTR;
    else if (may_block && n < interrupted + blocked)
        errno = EAGAIN;
    else
        return false;
    return true;
}

/* A copy of the list that is at most so long. */
static struct msghdr shorten (const struct msghdr *from, struct iovec *iov)
{
    struct msghdr to = *from;
    size_t left = most ? 1 + pick ((unsigned)most) : SIZE_MAX, i;

    to.msg_iov = iov;
    for (i = 0; i < from->msg_iovlen && left > 0; i++) {
        iov[i] = from->msg_iov[i];
        if (iov[i].iov_len > left)
            iov[i].iov_len = left;
        left -= iov[i].iov_len;
    }
    to.msg_iovlen = i;
    return to;
}

ssize_t __wrap_recvmsg (int fd, struct msghdr *message, int flags)
{
    struct iovec iov[64];
    struct msghdr shorter = shorten (message, iov);

    return fails (true) ? -1 : __real_recvmsg (fd, &shorter, flags);
}

ssize_t __wrap_sendmsg (int fd, const struct msghdr *message, int flags)
{
    struct iovec iov[64];
    struct msghdr shorter = shorten (message, iov);

    return fails (true) ? -1 : __real_sendmsg (fd, &shorter, flags);
}

ssize_t __wrap_recv (int fd, void *data, size_t length, int flags)
{
    if (fails (true))
        return -1;
    return __real_recv (fd, data, most && length > most ? most : length,
                        flags);
}

int __wrap_accept4 (int fd, struct sockaddr *address, socklen_t *length,
                    int flags)
{
    return fails (true) ? -1 : __real_accept4 (fd, address, length, flags);
}

int __wrap_epoll_wait (int fd, struct epoll_event *events, int room,
                       int timeout_ms)
{
    return fails (false) ? -1
                         : __real_epoll_wait (fd, events, room, timeout_ms);
}

static void run (size_t bytes, unsigned n_interrupted, unsigned n_blocked)
{
    struct player p[PLAYERS];

    most = bytes;
    interrupted = n_interrupted;
    blocked = n_blocked;
    large_bytes = bytes && bytes < 1000 ? 3000 : LARGE_BYTES;
    memset (scenario_target, 0, sizeof (scenario_target));
    EXPECT (scenario (p));
    expect_all_well (p);
    EXPECT (memcmp (scenario_source, scenario_target, large_bytes) == 0);
}

int main (void)
{
    static const size_t sizes[] = { 0, 1, 63, 65, 5000 };

    for (size_t i = 0; i < LARGE_BYTES; i++)
        scenario_source[i] = (uint8_t)(i * 7 + i / 251);
    /* What is put last lies over it. */
    memcpy (scenario_source, "message", 7);
    for (size_t i = 0; i < sizeof (sizes) / sizeof (*sizes); i++) {
        run (sizes[i], 0, 0);
        run (sizes[i], 4, 0);
        run (sizes[i], 0, 6);
        run (sizes[i], 3, 3);
    }
    return 0;
}
