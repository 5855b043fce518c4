#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define END_OF_INPUT 4                  /* Ctrl-D, as a new terminal has it */
#define LAST_PIPE_BYTES (1 << 20)       /* room for the last output */

#ifndef F_SETPIPE_SZ
#define F_SETPIPE_SZ 1031
#endif
#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif

static void drop (int *fd)
{
    if (*fd >= 0)
        close (*fd);
    *fd = -1;
}

void terminal_clear (struct terminal *t)
{
    t->ours = t->theirs = t->input = t->output = -1;
}

/* The other end of `ours`; in /dev/pts where the kernel is older than 4.13. */
static int open_peer (int ours)
{
    int number, fd = ioctl (ours, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    char path[32];

    if (fd >= 0 || ioctl (ours, TIOCGPTN, &number) != 0)
        return fd;
    snprintf (path, sizeof (path), "/dev/pts/%d", number);
    return open (path, O_RDWR | O_NOCTTY | O_CLOEXEC);
}

static void edit_characters (int ours)
{
    struct termios modes;

    if (tcgetattr (ours, &modes) == 0) {
        modes.c_iflag |= IUTF8;         /* erase whole characters */
        tcsetattr (ours, TCSANOW, &modes);
    }
}

bool terminal_open (struct terminal *t, uint32_t window)
{
    int unlocked = 0, saved;

    t->ours = open ("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (t->ours < 0)
        return false;
    if (ioctl (t->ours, TIOCSPTLCK, &unlocked) == 0
        && (t->theirs = open_peer (t->ours)) >= 0) {
        edit_characters (t->ours);
        terminal_resize (t, window);
        return true;
    }
    saved = errno;
    drop (&t->ours);
    errno = saved;
    return false;
}

bool terminal_take (int theirs)
{
    return ioctl (theirs, TIOCSCTTY, 0) == 0;
}

void terminal_resize (struct terminal *t, uint32_t window)
{
    struct winsize size = {
        .ws_row = (unsigned short) window,
        .ws_col = (unsigned short) (window >> 16),
    };

    if (t->ours >= 0)
        ioctl (t->ours, TIOCSWINSZ, &size);
}

void terminal_end (struct terminal *t)
{
    drop (&t->theirs);
    drop (&t->input);
}

/* --- bytes --------------------------------------------------------------- */

static bool is_empty (const struct carried *carried)
{
    return carried->written == carried->size;
}

static bool may_come_again (void)
{
    return errno == EAGAIN || errno == EINTR;
}

/* Read once.
 *   false   the end, or an error, which is the end of a terminal
 */
static bool fill (struct carried *carried, int fd)
{
    ssize_t n = read (fd, carried->bytes, sizeof (carried->bytes));

    if (n < 0 && may_come_again ())
        return true;
    carried->written = 0;
    carried->size = n > 0 ? (size_t) n : 0;
    return n > 0;
}

/* Write once.
 *   false   nobody reads there
 */
static bool empty (struct carried *carried, int fd)
{
    ssize_t n = write (fd, carried->bytes + carried->written,
                       carried->size - carried->written);

    if (n > 0)
        carried->written += (size_t) n;
    return n >= 0 || may_come_again ();
}

static void put (struct terminal *t)
{
    if (t->output >= 0 && !empty (&t->out, t->output))
        drop (&t->output);
    if (t->output < 0)                  /* what is written is for nobody */
        t->out.written = t->out.size;
}

static void close_all (struct terminal *t)
{
    drop (&t->ours);
    drop (&t->theirs);
    drop (&t->input);
    drop (&t->output);
}

void terminal_poll (const struct terminal *t, struct pollfd fds[TERMINAL_FDS])
{
    for (int i = 0; i < TERMINAL_FDS; i++)
        fds[i] = (struct pollfd) { .fd = -1 };
    if (t->ours < 0)
        return;
    if (is_empty (&t->out))
        fds[TERMINAL_OURS].events |= POLLIN;
    else
        fds[TERMINAL_OUTPUT] = (struct pollfd) { t->output, POLLOUT, 0 };
    if (!is_empty (&t->in))
        fds[TERMINAL_OURS].events |= POLLOUT;
    else
        fds[TERMINAL_INPUT] = (struct pollfd) { t->input, POLLIN, 0 };
    if (fds[TERMINAL_OURS].events)      /* else its hang-up would wake us */
        fds[TERMINAL_OURS].fd = t->ours;
}

void terminal_carry (struct terminal *t, const struct pollfd fds[TERMINAL_FDS])
{
    short ours = fds[TERMINAL_OURS].revents;

    if (fds[TERMINAL_INPUT].revents && !fill (&t->in, t->input)) {
        drop (&t->input);
        t->in.bytes[0] = END_OF_INPUT;
        t->in.size = 1;
    }
    if (ours & (POLLOUT | POLLHUP) && !is_empty (&t->in)
        && !empty (&t->in, t->ours))
        t->in.written = t->in.size;
    if (fds[TERMINAL_OUTPUT].revents)
        put (t);
    if (ours & (POLLIN | POLLHUP) && is_empty (&t->out)) {
        if (fill (&t->out, t->ours))
            put (t);
        else
            close_all (t);
    }
}

void terminal_finish (struct terminal *t, int wait_ms)
{
    struct pollfd reader = { .fd = t->output, .events = POLLOUT };
    bool has_waited = false;

    drop (&t->theirs);
    while (t->ours >= 0 && t->output >= 0) {
        if (!is_empty (&t->out)) {
            put (t);
            if (is_empty (&t->out) || t->output < 0)
                continue;
            if (fcntl (t->output, F_SETPIPE_SZ, LAST_PIPE_BYTES) > 0
                && poll (&reader, 1, 0) > 0)
                continue;
            if (has_waited || poll (&reader, 1, wait_ms) <= 0)
                break;
            has_waited = true;
        } else if (!fill (&t->out, t->ours)) {
            break;
        } else if (is_empty (&t->out)) {
            break;                      /* somebody else has it */
        }
    }
    close_all (t);
}
