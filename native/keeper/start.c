#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child.h"
#include "group.h"
#include "mapped.h"

#define LISTEN_BACKLOG 4096

/* The keeper's and the rank's end of each stream; -1 where there is none. */
struct streams {
    int ours[4], theirs[4];             /* in the order of enum report_fds */
    int listener;                       /* the rank's, for Portals */
    uint16_t port;                      /* that it listens at */
};

/* The loader only warns of a preload that it can not map, and the program
 * would run on, not held. So map it here first, with the owner's rights; and
 * take no path that the loader would read as something else. */
static bool can_preload (const char *library)
{
    void *page;
    int fd;

    if (library[0] != '/' || strpbrk (library, ": $"))
        return false;
    if ((fd = open (library, O_RDONLY | O_CLOEXEC)) < 0)
        return false;
    page = mmap (NULL, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    close (fd);
    if (page == MAP_FAILED)
        return false;
    munmap (page, 1);
    return true;
}

/* The loader takes no preload of a program whose real and effective ids
 * differ, as after setegid. */
static bool has_plain_ids (void)
{
    return getuid () == geteuid () && getgid () == getegid ();
}

const char *start_prepare (struct starter *starter, const struct spec *spec)
{
    int messages[2], go[2];

    starter->spec = spec;
    starter->keeper = getpid ();
    memset (starter->output_ends, 0xff, sizeof (starter->output_ends));
    terminal_clear (&starter->terminal);
    starter->may_preload = has_plain_ids ()
                           && can_preload (spec->hold_library);
    starter->null_fd = open ("/dev/null", O_RDWR | O_CLOEXEC);
    if (starter->null_fd < 0)
        return "/dev/null";
    if (pipe2 (messages, O_CLOEXEC) != 0 || pipe2 (go, O_CLOEXEC) != 0
        || fcntl (messages[0], F_SETFL, O_NONBLOCK) != 0
        || fcntl (go[1], F_SETFL, O_NONBLOCK) != 0)
        return "a pipe";
    starter->messages_fd = messages[0];
    starter->report_fd = messages[1];
    starter->go_reader = go[0];
    starter->go_writer = go[1];
    starter->claims_fd = starter->may_preload
                         ? claim_make_file (spec->n_ranks) : -1;
    starter->gate = mmap (NULL, spec->n_ranks * sizeof (uint32_t),
                          PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                          -1, 0);
    return starter->gate == MAP_FAILED ? "shared memory" : NULL;
}

static void close_ends (const int *ends)
{
    for (int i = 0; i < 4; i++)
        if (ends[i] >= 0)
            close (ends[i]);
}

/* What is the rank's alone. */
static void close_theirs (const struct streams *streams)
{
    close_ends (streams->theirs);
    if (streams->listener >= 0)
        close (streams->listener);
}

/* Our end of a rank's pipe does not block; the rank's own end does. */
static int make_pipe (struct streams *streams, int i, int our_end)
{
    int ends[2];

    if (pipe2 (ends, O_CLOEXEC) != 0)
        return -1;
    streams->ours[i] = ends[our_end];
    streams->theirs[i] = ends[!our_end];
    return fcntl (ends[our_end], F_SETFL, O_NONBLOCK);
}

static int bind_to (int fd, uint32_t nid)
{
    struct sockaddr_in at = { .sin_family = AF_INET };

    at.sin_addr.s_addr = htonl (nid);
    return bind (fd, (struct sockaddr *) &at, sizeof (at));
}

/* Listen at any free port of the node's address; of all addresses where this
 * host does not know that one as its own (it is translated on the way). */
static int make_listener (struct streams *streams, uint32_t nid)
{
    struct sockaddr_in at;
    socklen_t length = sizeof (at);
    int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if ((streams->listener = fd) < 0)
        return -1;
    if (bind_to (fd, nid) != 0
        && (errno != EADDRNOTAVAIL || bind_to (fd, INADDR_ANY) != 0))
        return -1;
    if (listen (fd, LISTEN_BACKLOG) != 0
        || getsockname (fd, (struct sockaddr *) &at, &length) != 0)
        return -1;
    streams->port = ntohs (at.sin_port);
    return 0;
}

static int make_streams (struct streams *streams, uint32_t flags,
                         uint32_t nid)
{
    int ends[2];

    memset (streams, 0xff, sizeof (*streams));
    streams->port = 0;
    if (flags & RANK_WANTS_PORTALS && make_listener (streams, nid) != 0)
        return -1;
    if (flags & RANK_WANTS_STDIN && make_pipe (streams, 0, 1) != 0)
        return -1;
    if (make_pipe (streams, 1, 0) != 0 || make_pipe (streams, 2, 0) != 0)
        return -1;
    if (!(flags & RANK_WANTS_PMI))
        return 0;
    if (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    streams->ours[3] = ends[0];
    streams->theirs[3] = ends[1];
    return fcntl (ends[0], F_SETFL, O_NONBLOCK);
}

/* The rank's ends of its pipes become the keeper's: it carries the bytes. */
static bool make_terminal (struct terminal *terminal, size_t index,
                           uint32_t window, struct streams *streams)
{
    if (!terminal_open (terminal, window)
        || fcntl (streams->theirs[0], F_SETFL, O_NONBLOCK) != 0
        || fcntl (streams->theirs[1], F_SETFL, O_NONBLOCK) != 0)
        return false;
    terminal->index = index;
    terminal->input = streams->theirs[0];
    terminal->output = streams->theirs[1];
    streams->theirs[0] = streams->theirs[1] = -1;
    return true;
}

static void keep_output (struct starter *starter, size_t index,
                         struct streams *streams)
{
    if (index >= KEPT_OUTPUTS)
        return;
    for (int i = 0; i < 2; i++) {
        starter->output_ends[index][i] = streams->theirs[1 + i];
        streams->theirs[1 + i] = -1;
    }
}

void start_drop_output (struct starter *starter, size_t index)
{
    for (int i = 0; i < 2; i++) {
        if (starter->output_ends[index][i] >= 0)
            close (starter->output_ends[index][i]);
        starter->output_ends[index][i] = -1;
    }
}

static void report_failure (struct outbox *box, uint32_t rank, enum step step)
{
    struct report *report = report_add (box, REPORT_EXEC_FAILED, rank);

    report->value = errno;
    report->step = (uint32_t) step;
}

static void report_start (struct outbox *box, uint32_t rank, pid_t unix_pid,
                          const struct streams *streams)
{
    struct report *report = report_add (box, REPORT_STARTED, rank);

    report->value = unix_pid;
    report->flags = streams->port;
    for (int i = 0; i < 4; i++)
        if (streams->ours[i] >= 0) {
            report->fds |= 1u << i;
            box->fds[box->n_fds++] = streams->ours[i];
        }
}

pid_t start_rank (struct starter *starter, size_t index,
                  struct outbox *box, int *pmi_fd)
{
    const struct spec_rank *rank = &starter->spec->ranks[index];
    bool has_terminal = (rank->flags & RANK_HAS_TERMINAL) != 0;
    struct terminal *terminal = &starter->terminal;
    struct streams streams;
    pid_t child;

    if (make_streams (&streams, rank->flags, starter->spec->listen_nid) != 0
        || (has_terminal
            && !make_terminal (terminal, index, rank->window, &streams))) {
        report_failure (box, rank->rank, STEP_STREAMS);
        close_ends (streams.ours);
        close_theirs (&streams);
        return 0;
    }
    if ((child = group_fork (starter->group_fd)) == 0) {
        const struct child_streams ends = {
            .input = has_terminal ? terminal->theirs
                     : streams.theirs[0] < 0 ? starter->null_fd
                                             : streams.theirs[0],
            .output = has_terminal ? terminal->theirs : streams.theirs[1],
            .error = has_terminal ? terminal->theirs : streams.theirs[2],
            .pmi = streams.theirs[3],
            .listener = streams.listener,
            .is_terminal = has_terminal,
        };
        child_run (starter, index, &ends);
    }
    if (child < 0) {
        report_failure (box, rank->rank, STEP_FORK);
        close_ends (streams.ours);
    } else {
        *pmi_fd = streams.theirs[3];
        report_start (box, rank->rank, child, &streams);
        keep_output (starter, index, &streams);
    }
    close_theirs (&streams);
    return child < 0 ? 0 : child;
}

void start_open_gate (const struct starter *starter, size_t index,
                      enum gate answer)
{
    uint32_t *word = &starter->gate[index];

    __atomic_store_n (word, (uint32_t) answer, __ATOMIC_RELEASE);
    syscall (SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}
