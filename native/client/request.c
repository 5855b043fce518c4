#include "request.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "name.h"
#include "outbox.h"
#include "wire.h"

extern char **environ;

/* Those that go with a launch: FORWARDED_LIMITS of yod. */
static const int LIMITS[] = {
    RLIMIT_CORE, RLIMIT_CPU, RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_STACK,
    RLIMIT_AS, RLIMIT_NOFILE,
};
#define N_LIMITS (sizeof (LIMITS) / sizeof (LIMITS[0]))

struct request {
    struct wire_request head;
    struct wire_limit limits[N_LIMITS];
} __attribute__ ((packed));

static struct {
    struct request request;
    int fds[2];                         /* the strings, the directory */
} made = { .fds = { -1, -1 } };

/* --- the strings --------------------------------------------------------- */

static bool write_whole (int fd, const char *data, size_t size)
{
    ssize_t n;

    while (size > 0) {
        n = write (fd, data, size);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0) {
            data += n;
            size -= (size_t) n;
        }
    }
    return true;
}

/* The kernel has laid the strings in a row: that takes one write. */
static bool write_strings (int fd, char *const strings[], size_t count,
                           size_t *total)
{
    const char *start = NULL, *end = NULL;

    for (size_t i = 0; i < count; i++) {
        if (strings[i] != end) {
            if (!write_whole (fd, start, (size_t) (end - start)))
                return false;
            start = strings[i];
        }
        end = strings[i] + strlen (strings[i]) + 1;
        *total += (size_t) (end - strings[i]);
    }
    return write_whole (fd, start, (size_t) (end - start));
}

static size_t count_strings (char *const strings[])
{
    size_t n = 0;

    while (strings && strings[n])
        n++;
    return n;
}

static bool is_allowed (size_t total)
{
    if (total + PATH_MAX <= WIRE_INVOCATION_MAX)
        return true;
    errno = E2BIG;
    return false;
}

static bool fill (int fd, char *argv[], size_t n_arguments,
                  size_t n_variables)
{
    char directory[PATH_MAX];
    size_t total = 0;

    if (!getcwd (directory, sizeof (directory)))
        directory[0] = 0;
    return write_strings (fd, argv, n_arguments, &total)
           && write_strings (fd, environ, n_variables, &total)
           && write_whole (fd, directory, strlen (directory) + 1)
           && is_allowed (total)
           && fcntl (fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW
                                          | F_SEAL_SHRINK | F_SEAL_SEAL) == 0;
}

/* Our own file is not what the user limits by `ulimit -f`. Where it is larger
 * than even the hard limit allows, the write says so, and no signal. */
static int make_strings (char *argv[], size_t n_arguments, size_t n_variables)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN }, action;
    struct rlimit before, raised;
    bool is_limited;
    int problem = 0;
    int fd = memfd_create ("yod-invocation", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return -1;
    is_limited = getrlimit (RLIMIT_FSIZE, &before) == 0
                 && before.rlim_cur != RLIM_INFINITY;
    if (is_limited) {
        raised = (struct rlimit) { before.rlim_max, before.rlim_max };
        setrlimit (RLIMIT_FSIZE, &raised);
        sigaction (SIGXFSZ, &ignore, &action);
    }
    if (!fill (fd, argv, n_arguments, n_variables)) {
        problem = errno;
        close (fd);
        fd = -1;
    }
    if (is_limited) {
        sigaction (SIGXFSZ, &action, NULL);
        setrlimit (RLIMIT_FSIZE, &before);
    }
    errno = problem;
    return fd;
}

/* --- the packet ---------------------------------------------------------- */

static uint32_t describe_streams (unsigned closed, bool has_stand_in)
{
    struct stat output, error;
    uint32_t flags = (has_stand_in ? STDIO_STAND_IN : 0)
                     | (name_is_yodjob () ? STDIO_YODJOB : 0);

    for (int fd = 0; fd < 3; fd++)
        if (closed & 1u << fd)
            flags |= (uint32_t) STDIO_STDIN_CLOSED << fd;
        else if (isatty (fd))
            flags |= (uint32_t) STDIO_STDIN_TERMINAL << fd;
    if (!(closed & 6) && fstat (1, &output) == 0 && fstat (2, &error) == 0
        && output.st_dev == error.st_dev && output.st_ino == error.st_ino)
        flags |= STDIO_SAME_OUTPUT;
    return flags;
}

static mode_t present_umask (void)
{
    mode_t mask = umask (077);

    umask (mask);
    return mask;
}

static uint64_t soft_limit (int resource)
{
    struct rlimit limit;

    if (getrlimit (resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur;
}

bool request_make (int argc, char *argv[], uint64_t ignored, unsigned closed,
                   bool has_stand_in)
{
    /* Python ignores these two for itself, and so yod-cold cannot tell. */
    uint64_t untold = (uint64_t) 1 << (SIGPIPE - 1)
                      | (uint64_t) 1 << (SIGXFSZ - 1);
    size_t n_arguments = argc > 0 ? (size_t) argc : 0;
    size_t n_variables = count_strings (environ);

    if (n_arguments == 0 || n_arguments > WIRE_STRINGS_MAX
        || n_variables > WIRE_STRINGS_MAX) {
        errno = E2BIG;
        return false;
    }
    made.request.head = (struct wire_request) {
        .head = { .kind = CLIENT_REQUEST, .value = WIRE_VERSION },
        .umask = present_umask (),
        .stdio = describe_streams (closed, has_stand_in),
        .ignored = ignored & ~untold,
        .arguments = (uint32_t) n_arguments,
        .variables = (uint32_t) n_variables,
        .limits = N_LIMITS,
    };
    for (size_t i = 0; i < N_LIMITS; i++)
        made.request.limits[i] = (struct wire_limit) {
            (uint32_t) LIMITS[i], soft_limit (LIMITS[i]),
        };
    made.fds[0] = make_strings (argv, n_arguments, n_variables);
    if (made.fds[0] >= 0)
        made.fds[1] = open (".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return made.fds[1] >= 0;
}

bool request_send (int socket)
{
    ssize_t sent;

    do
        sent = outbox_send (socket, &made.request, sizeof (made.request),
                            made.fds, 2);
    while (sent < 0 && errno == EINTR);
    return sent == sizeof (made.request);
}

void request_drop (void)
{
    int problem = errno;

    for (int i = 0; i < 2; i++) {
        if (made.fds[i] >= 0)
            close (made.fds[i]);
        made.fds[i] = -1;
    }
    errno = problem;
}
