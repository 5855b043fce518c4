#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "own.h"

void output_open (struct output *output, uint32_t number)
{
    output->number = number;
    output->fd = (int) number;
}

static void choose_how (struct output *output)
{
    struct stat status;
    int own;

    if (fstat (output->fd, &status) != 0 || S_ISREG (status.st_mode)) {
        output->how = OUTPUT_FILE;      /* if closed, the write says so */
    } else if (S_ISSOCK (status.st_mode)) {
        output->how = OUTPUT_SOCKET;
    } else if ((own = own_description (output->fd, O_WRONLY)) >= 0) {
        output->fd = own;
        output->how = OUTPUT_OWN;
    } else {
        output->how = OUTPUT_IN_PARTS;
    }
}

static ssize_t write_some (const struct output *output, const char *data,
                           size_t size)
{
    struct pollfd writable = { .fd = output->fd, .events = POLLOUT };

    switch (output->how) {
    case OUTPUT_SOCKET:
        return send (output->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    case OUTPUT_IN_PARTS:
        if (poll (&writable, 1, 0) <= 0) {
            errno = EAGAIN;
            return -1;
        }
        return write (output->fd, data, size < PIPE_BUF ? size : PIPE_BUF);
    default:
        return write (output->fd, data, size);
    }
}

/* Write as much as goes now.
 *   how many bytes; errno is 0, EAGAIN, or what broke the stream
 */
static size_t write_now (const struct output *output, const char *data,
                         size_t size)
{
    size_t done = 0;
    ssize_t n;

    errno = 0;
    while (done < size) {
        n = write_some (output, data + done, size - done);
        if (n > 0)
            done += (size_t) n;
        else if (n == 0 || errno != EINTR)
            break;
    }
    if (done == size)
        errno = 0;
    return done;
}

static void break_off (struct output *output, int number, struct outbox *box)
{
    output->is_broken = true;
    output->problem = number;
    outbox_add_number (box, CLIENT_OUTPUT_FAILED, output->number,
                       (uint32_t) number);
    outbox_add_written (box, output->number, output->count);
    output->first = output->count = 0;
}

/* Its name is asked of no file system. */
static bool is_nameless_pipe (int fd)
{
    static const char kind[] = "pipe:";
    char path[32], name[sizeof (kind) - 1];

    snprintf (path, sizeof (path), "/proc/self/fd/%d", fd);
    return readlink (path, name, sizeof (name)) == (ssize_t) sizeof (name)
           && memcmp (name, kind, sizeof (name)) == 0;
}

static enum gift choose_gift (struct output *output)
{
    struct stat status;

    if (output->how == OUTPUT_UNKNOWN)
        choose_how (output);
    if (output->is_broken || output->how != OUTPUT_OWN
        || fstat (output->fd, &status) != 0)
        return GIFT_NOTHING;
    if (S_ISCHR (status.st_mode))
        return status.st_rdev == makedev (1, 3) ? GIFT_NULL : GIFT_NOTHING;
    return is_nameless_pipe (output->fd) ? GIFT_PIPE : GIFT_NOTHING;
}

/* Answer GIVE, if that was asked and all is written. */
static void answer (struct output *output, struct outbox *box)
{
    enum gift gift;

    if (output->give != GIVE_ASKED || output->count > 0)
        return;
    output->give = GIVE_ANSWERED;
    gift = choose_gift (output);
    if (gift != GIFT_NOTHING)
        output->last = '\n';            /* as the server writes, mostly */
    outbox_add_number (box, CLIENT_GIVEN, output->number, gift);
}

static void keep (struct output *output, const char *data, size_t size)
{
    size_t end = (output->first + output->count) % OUTPUT_ROOM;
    size_t part = OUTPUT_ROOM - end < size ? OUTPUT_ROOM - end : size;

    memcpy (output->room + end, data, part);
    memcpy (output->room, data + part, size - part);
    output->count += size;
}

bool output_take (struct output *output, const char *data, size_t size,
                  struct outbox *box)
{
    size_t done = 0;

    if (size > OUTPUT_ROOM - output->count)
        return false;
    if (size > 0)
        output->last = data[size - 1];
    if (output->is_broken) {
        outbox_add_written (box, output->number, size);
        return true;
    }
    if (output->how == OUTPUT_UNKNOWN)
        choose_how (output);
    if (output->count == 0) {
        done = write_now (output, data, size);
        outbox_add_written (box, output->number, done);
        if (errno != 0 && errno != EAGAIN) {
            break_off (output, errno, box);
            outbox_add_written (box, output->number, size - done);
            answer (output, box);
            return true;
        }
    }
    keep (output, data + done, size - done);
    answer (output, box);
    return true;
}

void output_say (struct output *output, const char *line, struct outbox *box)
{
    size_t size = strlen (line);

    if (output->last != 0 && output->last != '\n')
        output_take (output, "\n", 1, box);
    if (size < OUTPUT_LINE_MAX)
        output_take (output, line, size, box);
}

void output_drain (struct output *output, struct outbox *box)
{
    size_t part, done;

    while (output->count > 0) {
        part = OUTPUT_ROOM - output->first;
        if (part > output->count)
            part = output->count;
        done = write_now (output, output->room + output->first, part);
        output->first = (output->first + done) % OUTPUT_ROOM;
        output->count -= done;
        outbox_add_written (box, output->number, done);
        if (errno == EAGAIN)
            return;
        if (errno != 0) {
            break_off (output, errno, box);
            break;
        }
    }
    output->first = 0;                  /* touch few pages */
    answer (output, box);
}

bool output_give (struct output *output, struct outbox *box)
{
    if (output->give != GIVE_UNASKED)
        return false;
    output->give = GIVE_ASKED;
    answer (output, box);
    return true;
}

bool output_leave (struct output *output, struct outbox *box)
{
    if (output->how == OUTPUT_UNKNOWN)
        choose_how (output);
    if (output->how == OUTPUT_FILE && !output->is_broken)
        return false;
    if (output->how == OUTPUT_OWN)
        close (output->fd);
    output->is_broken = true;
    output->give = GIVE_ANSWERED;       /* LEFT says it */
    outbox_withdraw (box, output->number);
    output_drop (output);
    return true;
}

void output_drop (struct output *output)
{
    output->first = output->count = 0;
}
