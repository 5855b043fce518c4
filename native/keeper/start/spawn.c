#include "spawn.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../group.h"
#include "child.h"

#define STACK_BYTES (256 << 10)         /* paths, heads of files, stdio */

/* A rank leaves the stack by exec, with the marks of its frames that the
 * sanitizer has made. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(start, bytes) ((void) 0)
#endif

struct making {
    struct starter *starter;
    size_t index;
    struct child_look look;
};

bool spawn_may_make (const struct starter *starter, size_t index)
{
    const struct spec_rank *rank = &starter->spec->ranks[index];

    return child_may_be_preloaded (starter, rank)
           && !(rank->flags & RANK_HAS_TERMINAL) && !child_opens_files (rank);
}

bool spawn_may_join (const struct starter *starter, size_t one, size_t other)
{
    const struct spec_rank *ranks = starter->spec->ranks;

    return spawn_may_make (starter, one) && spawn_may_make (starter, other)
           && strcmp (ranks[one].program->cwd, ranks[other].program->cwd) == 0;
}

static int run_rank (void *argument)
{
    const struct making *making = argument;

    child_run (making->starter, making->index, &making->look);
}

/* A rank that turns out to wait for the keeper has memory of its own. The kernel
 * writes the process id before the process runs. */
static bool make (struct making *making)
{
    static char stack[STACK_BYTES] __attribute__ ((aligned (16)));
    pid_t *born = &making->starter->shared[making->index].born;
    int flags = CLONE_PARENT | CLONE_PARENT_SETTID | SIGCHLD;

    if (child_is_preloaded (making->starter, making->index, &making->look))
        flags |= CLONE_VM | CLONE_VFORK;
    ASAN_UNPOISON_MEMORY_REGION (stack, STACK_BYTES);
    return clone (run_rank, stack + STACK_BYTES, flags, making, born) >= 0;
}

/* At the first rank that it cannot make it ends. */
_Noreturn static void run (struct starter *starter, size_t first, size_t count)
{
    const struct spec_program *program = NULL;
    struct making making = { .starter = starter };

    prctl (PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid () != starter->keeper)
        _exit (1);
    child_enter (starter->spec, starter->spec->ranks[first].program,
                 &making.look);
    for (size_t i = first; i < first + count; i++) {
        making.index = i;
        if (program != starter->spec->ranks[i].program) {
            program = starter->spec->ranks[i].program;
            child_look (program, &making.look);
        }
        if (!make (&making))
            _exit (1);
    }
    _exit (0);
}

pid_t spawn_batch (struct starter *starter, size_t first, size_t count)
{
    pid_t spawner = group_fork (starter->group_fd);

    if (spawner == 0)
        run (starter, first, count);
    return spawner < 0 ? 0 : spawner;
}
