#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../message.h"
#include "../output/mark.h"
#include "../remote.h"

#define PRELOAD "LD_PRELOAD="
#define RESTART "YOD_RESTART_DIR="

struct child {
    const struct starter *starter;
    const struct spec_rank *rank;
    uint32_t index;
};

static void tell (const struct child *child, struct message *message)
{
    message->index = child->index;
    while (write (child->starter->report_fd, message, sizeof (*message)) < 0
           && errno == EINTR)
        ;
}

_Noreturn static void fail (const struct child *child, enum step step,
                            int error, const char *text)
{
    struct message message = {
        .kind = MESSAGE_FAILED,
        .error = error,
        .step = (uint32_t) step,
    };

    strncpy (message.text, text, sizeof (message.text) - 1);
    tell (child, &message);
    _exit (error == ENOENT ? 127 : 126);        /* as shells do */
}

/* A rank with a terminal has it as all three streams. */
static void take_streams (const struct child *child)
{
    const struct starter *starter = child->starter;
    const struct streams *streams = &starter->streams[child->index];
    const int *theirs = streams->theirs;
    bool has_terminal = (child->rank->flags & RANK_HAS_TERMINAL) != 0;
    int from[] = { theirs[0] < 0 ? starter->null_fd : theirs[0], theirs[1],
                   theirs[2] };

    if (has_terminal)
        from[0] = from[1] = from[2] = starter->terminal.theirs;
    if ((has_terminal && !terminal_take (from[0]))
        || dup2 (from[0], 0) < 0 || dup2 (from[1], 1) < 0
        || dup2 (from[2], 2) < 0
        || (theirs[3] >= 0 && fcntl (theirs[3], F_SETFD, 0) != 0)
        || (streams->listener >= 0
            && (fcntl (streams->listener, F_SETFD, 0) != 0
                || fcntl (PORTALS_FD, F_SETFD, 0) != 0)))
        fail (child, STEP_STREAMS, errno, "");
}

/* All signals have had their default actions since the keeper's start. The
 * call is raw because libc refuses the signals that it keeps for itself. */
static void take_signals (const struct child *child)
{
    static const uint64_t ignore[8] = { (uintptr_t) SIG_IGN };
    sigset_t none;

    for (int signo = 1; signo < NSIG; signo++)
        if (child->starter->spec->ignored >> (signo - 1) & 1)
            syscall (SYS_rt_sigaction, signo, ignore, NULL,
                     sizeof (ignore[0]));
    sigemptyset (&none);
    sigprocmask (SIG_SETMASK, &none, NULL);
}

/* Limits above what this node allows are cut to what it allows: the owner's
 * limits were taken on another machine. */
static void take_limits (const struct child *child)
{
    const struct spec *spec = child->starter->spec;

    for (size_t i = 0; i < spec->n_limits; i++) {
        const struct spec_limit *wish = &spec->limits[i];
        int resource = (int) wish->resource;
        struct rlimit limit;

        if (getrlimit (resource, &limit) != 0)
            fail (child, STEP_LIMITS, errno, "");
        if (wish->hard != SPEC_KEEP
            && (wish->hard < limit.rlim_max || geteuid () == 0))
            limit.rlim_max = wish->hard;
        if (wish->soft != SPEC_KEEP)
            limit.rlim_cur = wish->soft;
        if (limit.rlim_cur > limit.rlim_max)
            limit.rlim_cur = limit.rlim_max;
        if (setrlimit (resource, &limit) != 0)
            fail (child, STEP_LIMITS, errno, "");
    }
}

/* The call is raw because libc's set has a fixed size. */
static void take_processors (const struct child *child)
{
    static uint64_t mask[SPEC_MAX_CPU_WORDS];
    const struct spec_rank *rank = child->rank;
    size_t bytes = rank->n_cpu_words * sizeof (mask[0]);

    if (!(rank->flags & RANK_IS_BOUND))
        return;
    memcpy (mask, rank->cpus, bytes);   /* it may lie unaligned */
    if (syscall (SYS_sched_setaffinity, 0, bytes, mask) != 0)
        fail (child, STEP_AFFINITY, errno, "");
}

/* What the rank has in the checkpoint that it goes on from; NULL: it begins. */
static const char *restart_of (const struct spec_rank *rank)
{
    for (size_t i = 0; i < rank->environment.count; i++)
        if (strncmp (rank->environment.list[i], RESTART, strlen (RESTART)) == 0)
            return rank->environment.list[i] + strlen (RESTART);
    return NULL;
}

/* Both outputs into one file share its descriptor, and so its end. The files of
 * ranks that have none of their own are appended to by several at once. */
static void take_files (const struct child *child)
{
    const struct spec_rank *rank = child->rank;
    const char *restart = restart_of (rank);
    int how = O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_CLOEXEC;

    if (restart)
        mark_cut_named (restart);
    if (!(rank->flags & RANK_HAS_FILES))
        return;
    if (!(rank->flags & RANK_APPENDS))
        how |= O_TRUNC;
    for (int f = 0; f < 2; f++) {
        const char *path = rank->files[f];
        int fd = -1;

        if (!*path)
            continue;
        if (f == 0 || strcmp (path, rank->files[0]) != 0)
            fd = open (path, how, 0666);
        if (fd >= 0 && restart && rank->flags & RANK_APPENDS)
            mark_cut_opened (restart, fd);
        if ((fd < 0 && f == 0) || (fd < 0 && strcmp (path, rank->files[0]) != 0)
            || dup2 (fd < 0 ? 1 : fd, 1 + f) < 0)
            fail (child, STEP_OUTPUT, errno, path);
        if (fd >= 0)
            close (fd);
    }
}

static size_t name_bytes (const char *variable)
{
    const char *equals = strchr (variable, '=');

    return equals ? (size_t) (equals + 1 - variable) : 0;
}

static bool is_replaced (const struct spec_strings *by, const char *variable)
{
    size_t n = name_bytes (variable);

    for (size_t i = 0; n > 0 && i < by->count; i++)
        if (strncmp (by->list[i], variable, n) == 0)
            return true;
    return false;
}

/* Make the rank's environment: the shared variables that it does not replace,
 * then its own. Room for PMI_FD, YOD_PORTALS and the hold library's two stays
 * at the end. */
static char **make_environment (const struct child *child, size_t *countp)
{
    const struct spec_strings *shared = &child->starter->spec->environment;
    const struct spec_strings *own = &child->rank->environment;
    size_t n = 0;
    char **list = calloc (shared->count + own->count + 5, sizeof (char *));

    if (!list)
        fail (child, STEP_MEMORY, ENOMEM, "");
    for (size_t i = 0; i < shared->count; i++)
        if (!is_replaced (own, shared->list[i]))
            list[n++] = shared->list[i];
    for (size_t i = 0; i < own->count; i++)
        list[n++] = own->list[i];
    *countp = n;
    return list;
}

/* Set a variable: replace the one of that name, or append it. */
static void add (char **list, size_t *countp, char *variable)
{
    size_t n = name_bytes (variable);

    for (size_t i = 0; i < *countp; i++)
        if (strncmp (list[i], variable, n) == 0) {
            list[i] = variable;
            return;
        }
    list[(*countp)++] = variable;
}

static void add_pmi (char **list, size_t *countp, int fd)
{
    static char variable[32];

    snprintf (variable, sizeof (variable), "PMI_FD=%d", fd);
    add (list, countp, variable);
}

static void add_portals (char **list, size_t *countp, int listener,
                         uint32_t rank)
{
    static char variable[64];

    snprintf (variable, sizeof (variable), "YOD_PORTALS=%d,%d,%u", PORTALS_FD,
              listener, rank);
    add (list, countp, variable);
}

/* Find the last variable of that name: the loader obeys that one. */
static char **find (char **list, size_t count, const char *name)
{
    while (count-- > 0)
        if (strncmp (list[count], name, strlen (name)) == 0)
            return &list[count];
    return NULL;
}

/* Put the hold library before the user's preloads. Its variable comes last:
 * when it is removed, /proc/self/environ ends in padding. */
static void add_preload (const struct child *child, char **list, size_t count)
{
    const struct starter *starter = child->starter;
    const char *library = starter->spec->hold_library;
    char **users = find (list, count, PRELOAD);
    size_t length = strlen (library);
    size_t room = sizeof (PRELOAD) + length + 1
                  + (users ? strlen (*users) : 0);
    char *preload = malloc (room);
    static char variable[80];

    if (!preload)
        fail (child, STEP_MEMORY, ENOMEM, "");
    snprintf (preload, room, users ? PRELOAD "%s:%s" : PRELOAD "%s", library,
              users ? *users + sizeof (PRELOAD) - 1 : "");
    if (users)
        *users = preload;
    else
        list[count++] = preload;
    snprintf (variable, sizeof (variable), START_VARIABLE "%d,%d,%u,%zu,%d",
              starter->report_fd, starter->go_reader, child->index, length,
              starter->claims_fd < 0 ? 0 : starter->claims_fd);
    list[count++] = variable;
    if (fcntl (starter->report_fd, F_SETFD, 0) != 0
        || fcntl (starter->go_reader, F_SETFD, 0) != 0
        || (starter->claims_fd >= 0
            && fcntl (starter->claims_fd, F_SETFD, 0) != 0))
        fail (child, STEP_STREAMS, errno, "");
}

/* Wait until the keeper has changed the word from `from`. A fatal signal ends
 * this process here; other signals do not end the wait. */
static uint32_t wait_at_gate (const struct child *child, uint32_t from)
{
    uint32_t *word = &child->starter->shared[child->index].gate;
    uint32_t now;

    while ((now = __atomic_load_n (word, __ATOMIC_ACQUIRE)) == from)
        syscall (SYS_futex, word, FUTEX_WAIT, from, NULL, NULL, 0);
    return now;
}

static void hold_before_exec (const struct child *child, uint32_t gate)
{
    struct message message = { .kind = MESSAGE_HELD_BEFORE_EXEC };

    tell (child, &message);
    wait_at_gate (child, gate);
}

static void hold_by_trace (const struct child *child)
{
    struct message message = { .kind = MESSAGE_TRACE_ME };

    /* After a change of uid the kernel forbids processes of that uid to trace
     * us: allow it again. */
    prctl (PR_SET_DUMPABLE, 1, 0, 0, 0);
    tell (child, &message);
    if (wait_at_gate (child, GATE_SHUT) == GATE_NOT_TRACED)
        hold_before_exec (child, GATE_NOT_TRACED);
}

_Noreturn static void exec (const struct child *child, char **environment)
{
    const struct spec_program *program = child->rank->program;
    struct inspect_fault fault = { .step = STEP_EXEC };

    execve (program->path, program->argv.list, environment);
    fault.error = errno;
    strncpy (fault.path, program->path, sizeof (fault.path) - 1);
    if (errno == ENOENT)
        inspect_missing (program->path, &fault);
    fail (child, fault.step, fault.error, fault.path);
}

void child_enter (const struct spec *spec, const struct spec_program *program,
                  struct child_look *look)
{
    look->chdir_error = 0;
    remote_learn_owners (spec);
    if (*program->cwd && chdir (program->cwd) != 0)
        look->chdir_error = errno;
}

void child_look (const struct spec_program *program, struct child_look *look)
{
    look->is_refused = look->takes_preload = false;
    if (look->chdir_error == 0)
        look->is_refused = !inspect_program (program->path,
                                             &look->takes_preload,
                                             &look->fault);
}

bool child_opens_files (const struct spec_rank *rank)
{
    return rank->flags & RANK_HAS_FILES || restart_of (rank);
}

static bool has (const struct spec_strings *environment, const char *name)
{
    return find (environment->list, environment->count, name) != NULL;
}

bool child_may_be_preloaded (const struct starter *starter,
                             const struct spec_rank *rank)
{
    enum spec_hold hold = rank->program->hold;

    return starter->may_preload && hold != HOLD_TRACE
           && hold != HOLD_BEFORE_EXEC;
}

/* An auditing library would run user code before any preload. */
bool child_is_preloaded (const struct starter *starter, size_t index,
                         const struct child_look *look)
{
    const struct spec_rank *rank = &starter->spec->ranks[index];

    return child_may_be_preloaded (starter, rank) && look->takes_preload
           && !has (&starter->spec->environment, "LD_AUDIT=")
           && !has (&rank->environment, "LD_AUDIT=");
}

void child_run (const struct starter *starter, size_t index,
                const struct child_look *look)
{
    const struct spec_rank *rank = &starter->spec->ranks[index];
    const struct streams *streams = &starter->streams[index];
    struct child child = { starter, rank, (uint32_t) index };
    struct child_look own;
    size_t n_environment;
    char **environment;

    prctl (PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid () != starter->keeper)
        _exit (127);
    setsid ();
    setpriority (PRIO_PROCESS, 0, starter->niceness);
    take_signals (&child);
    take_streams (&child);
    take_processors (&child);
    if (!look) {
        child_enter (starter->spec, rank->program, &own);
        child_look (rank->program, &own);
        look = &own;
    }
    if (look->chdir_error != 0)
        fail (&child, STEP_CHDIR, look->chdir_error, rank->program->cwd);
    take_files (&child);
    if (look->is_refused)
        fail (&child, look->fault.step, look->fault.error, look->fault.path);
    environment = make_environment (&child, &n_environment);
    if (streams->theirs[3] >= 0)
        add_pmi (environment, &n_environment, streams->theirs[3]);
    if (streams->listener >= 0)
        add_portals (environment, &n_environment, streams->listener,
                     rank->rank);
    take_limits (&child);               /* last: a small limit could stop us */
    if (child_is_preloaded (starter, index, look))
        add_preload (&child, environment, n_environment);
    else if (rank->program->hold == HOLD_BEFORE_EXEC)
        hold_before_exec (&child, GATE_SHUT);
    else
        hold_by_trace (&child);
    exec (&child, environment);
}
