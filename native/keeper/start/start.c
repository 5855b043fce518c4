#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../group.h"
#include "../mapped.h"
#include "child.h"

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
    starter->shared = mmap (NULL, spec->n_ranks * sizeof (struct shared),
                            PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (starter->shared == MAP_FAILED)
        return "shared memory";
    starter->streams = calloc (spec->n_ranks, sizeof (struct streams));
    return starter->streams ? NULL : "memory";
}

bool start_make_streams (struct starter *starter, size_t index)
{
    const struct spec_rank *rank = &starter->spec->ranks[index];
    struct streams *streams = &starter->streams[index];
    int error;

    if (!streams_make (streams, rank->flags, starter->spec->listen_nid))
        return false;
    if (!(rank->flags & RANK_HAS_TERMINAL)
        || streams_join_terminal (streams, &starter->terminal, index,
                                  rank->window))
        return true;
    error = errno;
    streams_close (streams);
    errno = error;
    return false;
}

int start_fork (struct starter *starter, size_t index)
{
    pid_t child = group_fork (starter->group_fd);

    if (child < 0)
        return errno;
    if (child == 0)
        child_run (starter, index, NULL);
    starter->shared[index].born = child;
    return 0;
}

pid_t start_born (const struct starter *starter, size_t index)
{
    return __atomic_load_n (&starter->shared[index].born, __ATOMIC_ACQUIRE);
}

void start_open_gate (const struct starter *starter, size_t index,
                      enum gate answer)
{
    uint32_t *word = &starter->shared[index].gate;

    __atomic_store_n (word, (uint32_t) answer, __ATOMIC_RELEASE);
    syscall (SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}
