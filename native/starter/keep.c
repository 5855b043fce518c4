/* keep.c - the keeper of one program. */
#include "keep.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../keeper/descend.h"
#include "report.h"

#define EXIT_NOT_FOUND 127
#define EXIT_NOT_EXECUTED 126
#define FILE_MODE 0666
#define DIRECTORY_MODE 0777

struct keeping {
    const struct order *order;
    struct report report;
    pid_t *ranks;                       /* 0: has ended */
    uint32_t n_left;
    int fd;
    int output, error;
    int exec_error;                     /* written by a child that shares our memory */
};

static _Noreturn void fail (struct keeping *keeping, enum report_step step,
                            int error)
{
    keeping->report.kind = REPORT_FAILED;
    keeping->report.step = step;
    keeping->report.value = error;
    report_send (&keeping->report, keeping->fd);
    _exit (EXIT_SUCCESS);
}

/* Each directory of the path that is not there. */
static int make_directory (char *path)
{
    for (char *slash = path + 1; (slash = strchr (slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir (path, DIRECTORY_MODE) != 0 && errno != EEXIST) {
            *slash = '/';
            return -1;
        }
        *slash = '/';
    }
    return mkdir (path, DIRECTORY_MODE) != 0 && errno != EEXIST ? -1 : 0;
}

/* Mostly only the last directory is missing. */
static int enter (const struct order *order)
{
    if (order->flags & ORDER_MAKE_DIRECTORY
        && mkdir (order->directory, DIRECTORY_MODE) != 0 && errno == ENOENT
        && make_directory (order->directory) != 0)
        return -1;
    return chdir (order->directory);
}

static int open_output (const char *path)
{
    if (!*path)
        return open ("/dev/null", O_RDWR | O_CLOEXEC);
    return open (path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, FILE_MODE);
}

static void set_variables (const struct order *order)
{
    for (uint32_t i = 0; i < order->n_variables; i++) {
        if (strchr (order->variables[i], '='))
            putenv (order->variables[i]);
        else
            unsetenv (order->variables[i]);
    }
}

/* Between vfork and exec: the memory is the keeper's. */
static _Noreturn void run (struct keeping *keeping, pid_t keeper, int null_fd)
{
    sigset_t none;

    sigemptyset (&none);
    sigprocmask (SIG_SETMASK, &none, NULL);
    setsid ();
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    if (getppid () != keeper)
        _exit (EXIT_NOT_EXECUTED);
    if (dup2 (null_fd, 0) >= 0 && dup2 (keeping->output, 1) >= 0
        && dup2 (keeping->error, 2) >= 0)
        execvp (keeping->order->words[0], keeping->order->words);
    keeping->exec_error = errno;
    _exit (errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTED);
}

static void start_rank (struct keeping *keeping, uint32_t i, int null_fd)
{
    char number[16];
    pid_t keeper = getpid (), child;

    snprintf (number, sizeof (number), "%u", keeping->order->first_rank + i);
    setenv ("RP_RANK", number, 1);
    setenv ("YOD_RANK", number, 1);
    if ((child = vfork ()) == 0)
        run (keeping, keeper, null_fd);
    if (child < 0 && i == 0)
        fail (keeping, STEP_FORK, errno);
    if (child < 0)
        keeping->report.value = EXIT_NOT_EXECUTED << 8;
    else
        keeping->n_left++;
    keeping->ranks[i] = child > 0 ? child : 0;
}

static void start_ranks (struct keeping *keeping)
{
    int null_fd = open ("/dev/null", O_RDONLY | O_CLOEXEC);

    keeping->ranks = calloc (keeping->order->ranks, sizeof (pid_t));
    if (!keeping->ranks)
        fail (keeping, STEP_FORK, ENOMEM);
    for (uint32_t i = 0; i < keeping->order->ranks; i++)
        start_rank (keeping, i, null_fd);
    close (null_fd);
    keeping->report.times_ns[TIME_STARTED] = report_now ();
    if (keeping->order->flags & ORDER_TELL_START && !keeping->exec_error) {
        struct report started = keeping->report;

        started.kind = REPORT_STARTED;
        started.value = keeping->ranks[0];
        report_send (&started, keeping->fd);
    }
}

static void signal_ranks (const struct keeping *keeping, int signo)
{
    for (uint32_t i = 0; i < keeping->order->ranks; i++)
        if (keeping->ranks[i] > 0) {
            kill (-keeping->ranks[i], signo);
            if (signo == SIGTERM)       /* a stopped one could not end */
                kill (-keeping->ranks[i], SIGCONT);
        }
}

static void ended (struct keeping *keeping, pid_t child, int status,
                   const struct rusage *used)
{
    struct report *report = &keeping->report;

    for (uint32_t i = 0; i < keeping->order->ranks; i++) {
        if (keeping->ranks[i] != child)
            continue;
        keeping->ranks[i] = 0;
        keeping->n_left--;
        if (report->value == 0)
            report->value = status;
        report->user_us += (uint64_t) used->ru_utime.tv_sec * 1000000u
                           + (uint64_t) used->ru_utime.tv_usec;
        report->system_us += (uint64_t) used->ru_stime.tv_sec * 1000000u
                             + (uint64_t) used->ru_stime.tv_usec;
        if ((uint64_t) used->ru_maxrss > report->max_rss_kb)
            report->max_rss_kb = (uint64_t) used->ru_maxrss;
        report->times_ns[TIME_ENDED] = report_now ();
    }
}

/* False: no child is left. */
static bool reap (struct keeping *keeping)
{
    struct rusage used;
    pid_t child;
    int status;

    while ((child = wait4 (-1, &status, WNOHANG, &used)) > 0)
        ended (keeping, child, status, &used);
    return child == 0;
}

static void wait_for_ranks (struct keeping *keeping)
{
    siginfo_t told;
    sigset_t all;

    sigemptyset (&all);
    sigaddset (&all, SIGCHLD);
    sigaddset (&all, KEEP_END);
    sigaddset (&all, KEEP_SIGNAL);
    while (reap (keeping) && keeping->n_left > 0) {
        int signo = sigwaitinfo (&all, &told);

        if (signo == KEEP_END)
            descend_kill (NULL, 0);
        else if (signo == KEEP_SIGNAL)
            signal_ranks (keeping, told.si_value.sival_int);
    }
}

/* What the ranks have left behind: there is none, mostly. */
static void clean (struct keeping *keeping)
{
    while (reap (keeping)) {
        if (descend_kill (NULL, 0) == 0)
            break;                      /* no /proc */
        if (waitpid (-1, NULL, 0) < 0)
            break;
    }
    keeping->report.times_ns[TIME_CLEANED] = report_now ();
}

static uint32_t read_tail (int fd, char *into)
{
    off_t size = lseek (fd, 0, SEEK_END);
    off_t from = size > TAIL_BYTES ? size - TAIL_BYTES : 0;
    ssize_t n = size > 0 ? pread (fd, into, TAIL_BYTES, from) : 0;

    return n > 0 ? (uint32_t) n : 0;
}

static void add_tails (struct keeping *keeping)
{
    struct report *report = &keeping->report;

    report->output_bytes = read_tail (keeping->output, report->tails);
    if (strcmp (keeping->order->output, keeping->order->error) != 0)
        report->error_bytes = read_tail (keeping->error,
                                         report->tails + report->output_bytes);
}

void keep (const struct order *order, pid_t starter, int fd)
{
    struct keeping keeping = { .order = order, .fd = fd };

    keeping.report.number = order->number;
    keeping.report.times_ns[TIME_BEGAN] = report_now ();
    prctl (PR_SET_PDEATHSIG, KEEP_END);
    if (getppid () != starter)
        _exit (EXIT_FAILURE);
    prctl (PR_SET_CHILD_SUBREAPER, 1);
    if (enter (order) != 0)
        fail (&keeping, STEP_DIRECTORY, errno);
    keeping.report.times_ns[TIME_PREPARED] = report_now ();
    keeping.output = open_output (order->output);
    keeping.error = strcmp (order->output, order->error) == 0
                    ? keeping.output : open_output (order->error);
    if (keeping.output < 0 || keeping.error < 0)
        fail (&keeping, STEP_OUTPUT, errno);
    set_variables (order);
    start_ranks (&keeping);
    wait_for_ranks (&keeping);
    clean (&keeping);
    if (keeping.exec_error)
        fail (&keeping, STEP_EXEC, keeping.exec_error);
    keeping.report.kind = REPORT_ENDED;
    add_tails (&keeping);
    report_send (&keeping.report, fd);
    _exit (EXIT_SUCCESS);
}
