#include "append.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "wire.h"

static void open_file (struct append *append, const char *path, uint32_t flags)
{
    int how = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    bool is_log = flags & APPEND_LOG;

    if (flags & APPEND_EMPTIES)
        how |= O_TRUNC;
    append->fd = open (path, how | (is_log ? O_NOFOLLOW : 0),
                       is_log ? 0644 : 0666);
    append->problem = append->fd < 0 ? errno : 0;
    append->is_open = true;
}

static int write_whole (int fd, const char *data, size_t size)
{
    struct pollfd writable = { .fd = fd, .events = POLLOUT };
    ssize_t n;

    while (size > 0) {
        n = write (fd, data, size);
        if (n >= 0) {
            data += n;
            size -= (size_t) n;
        } else if (errno == EAGAIN) {
            if (poll (&writable, 1, APPEND_WAIT_MS) == 0)
                return ETIMEDOUT;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

bool append_data (struct append *append, const char *path, uint32_t flags,
                  const char *data, size_t size, int *problem)
{
    if (!append->is_open)
        open_file (append, path, flags);
    if (append->problem == 0)
        append->problem = write_whole (append->fd, data, size);
    if (flags & APPEND_MORE)
        return false;
    if (append->fd >= 0 && close (append->fd) != 0 && append->problem == 0)
        append->problem = errno;
    append->is_open = false;
    *problem = append->problem;
    return true;
}
