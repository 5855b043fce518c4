#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>

#include "own.h"

/* What was typed behind `fg`, before the shell had done it, makes no further
 * edge; by then it has (yod/host/foreground.py). */
#define LOOK_AGAIN_MS 100

static void open_input (struct input *input)
{
    struct stat status;
    int own;

    input->is_open = true;
    input->fd = 0;
    if (fstat (0, &status) == 0)
        input->is_socket = S_ISSOCK (status.st_mode);
    if ((own = own_description (0, O_RDONLY)) >= 0)
        input->fd = own;
}

/* Be told of the next line that is typed, whoever reads it. */
static void pause_input (struct input *input)
{
    struct epoll_event edge = { .events = EPOLLIN | EPOLLET };

    input->is_paused = true;
    if ((input->edges = epoll_create1 (EPOLL_CLOEXEC)) >= 0)
        epoll_ctl (input->edges, EPOLL_CTL_ADD, input->fd, &edge);
}

void input_resume (struct input *input)
{
    if (input->is_paused && input->edges >= 0)
        close (input->edges);
    input->is_paused = false;
    input->look_at = 0;
}

void input_allow (struct input *input, uint32_t bytes)
{
    if (!input->is_open)
        open_input (input);
    input->allowed += bytes;
    input_resume (input);
}

void input_leave (struct input *input)
{
    input_resume (input);
    input->is_over = true;
    if (input->is_open && input->fd > 0)
        close (input->fd);
    input->fd = -1;
}

int input_fd (const struct input *input)
{
    if (input->allowed == 0 || input->is_over || input->is_waiting)
        return -1;
    return input->is_paused ? input->edges : input->fd;
}

bool input_is_due (const struct input *input, int64_t now)
{
    return input->look_at > 0 && now >= input->look_at;
}

static bool is_in_background (int fd)
{
    pid_t foreground;

    if (!isatty (fd))
        return false;
    foreground = tcgetpgrp (fd);
    return foreground >= 0 && foreground != getpgrp ();
}

/* Whether the terminal is ours now. One that has hung up is not: SIGHUP tells
 * that to whom it concerns. */
static bool has_come (struct input *input, int64_t now)
{
    struct pollfd fd = { .fd = input->fd, .events = POLLIN };
    struct epoll_event edge;
    bool is_edge = epoll_wait (input->edges, &edge, 1, 0) > 0;

    if (tcgetpgrp (input->fd) == getpgrp ()) {
        input_resume (input);
        return true;
    }
    input->look_at = 0;
    if (is_edge && poll (&fd, 1, 0) > 0)        /* nobody has read it */
        input->look_at = now + LOOK_AGAIN_MS;
    return false;
}

/* Whether it is a terminal that has hung up, and not only an end of file. */
static bool has_gone (int fd)
{
    struct termios ignored;

    return tcgetattr (fd, &ignored) != 0 && errno == EIO;
}

void input_read (struct input *input, int64_t now)
{
    size_t most = sizeof (input->data);
    ssize_t n;

    if (input->is_paused && !has_come (input, now))
        return;
    if (is_in_background (input->fd)) {
        pause_input (input);
        return;
    }
    if (most > input->allowed)
        most = (size_t) input->allowed;
    do
        n = input->is_socket ? recv (0, input->data, most, MSG_DONTWAIT)
                             : read (input->fd, input->data, most);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return;
    input->size = n > 0 ? (size_t) n : 0;       /* an error ends it, too */
    input->allowed -= input->size;
    input->is_over = input->size == 0;
    input->head.kind = CLIENT_INPUT;
    input->head.value = input->is_over && has_gone (input->fd);
    input->is_waiting = true;
}

bool input_flush (struct input *input, int socket)
{
    struct iovec parts[] = {
        { .iov_base = &input->head, .iov_len = sizeof (input->head) },
        { .iov_base = input->data, .iov_len = input->size },
    };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    ssize_t sent;

    if (!input->is_waiting)
        return true;
    do
        sent = sendmsg (socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM))
        return false;
    input->is_waiting = false;          /* if it failed, recv says why */
    return true;
}
