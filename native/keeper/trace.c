#include "trace.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATUS_BYTES 4096               /* of /proc/PID/status; it has less */

/* --- at its exec --------------------------------------------------------- */

bool trace_start (pid_t child)
{
    /* EXITKILL: if the keeper dies, a rank held at its exec is killed, not
     * freed. */
    return ptrace (PTRACE_SEIZE, child, NULL,
                   PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC) == 0;
}

bool trace_stopped (pid_t child, int wait_status)
{
    int event = wait_status >> 16, signo = WSTOPSIG (wait_status);

    if (event == PTRACE_EVENT_EXEC)
        return true;
    if (event == PTRACE_EVENT_STOP) {
        /* A stop by job control: it stays stopped until SIGCONT. */
        if (signo == SIGSTOP || signo == SIGTSTP || signo == SIGTTIN
            || signo == SIGTTOU)
            ptrace (PTRACE_LISTEN, child, NULL, NULL);
        else
            ptrace (PTRACE_CONT, child, NULL, NULL);
    } else {
        ptrace (PTRACE_CONT, child, NULL, (long) (event ? 0 : signo));
    }
    return false;
}

bool trace_on (pid_t child, bool is_at_exec)
{
    const long options = PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE;

    if (!is_at_exec)
        return ptrace (PTRACE_SEIZE, child, NULL, options) == 0;
    return ptrace (PTRACE_SETOPTIONS, child, NULL, options) == 0
           && ptrace (PTRACE_CONT, child, NULL, NULL) == 0;
}

void trace_release (pid_t child)
{
    ptrace (PTRACE_DETACH, child, NULL, NULL);
}

void trace_leave_stopped (pid_t child)
{
    kill (child, SIGSTOP);              /* it acts before the first instruction */
    ptrace (PTRACE_DETACH, child, NULL, NULL);
}

/* --- before its end ------------------------------------------------------ */

/* Without a handler these do not end a process. */
static bool is_harmless (int signo)
{
    switch (signo) {
    case SIGCHLD: case SIGCONT: case SIGURG: case SIGWINCH:
    case SIGSTOP: case SIGTSTP: case SIGTTIN: case SIGTTOU:
        return true;
    default:
        return false;
    }
}

/* A number of /proc/PID/status; 0: there is none. */
static uint64_t field (const char *status, const char *name, int base)
{
    const char *at = strstr (status, name);

    return at ? strtoull (at + strlen (name), NULL, base) : 0;
}

static bool read_status (pid_t thread, char *status)
{
    char path[32];
    ssize_t n;
    int fd;

    snprintf (path, sizeof (path), "/proc/%d/status", (int) thread);
    if ((fd = open (path, O_RDONLY | O_CLOEXEC)) < 0)
        return false;
    n = read (fd, status, STATUS_BYTES - 1);
    close (fd);
    if (n <= 0)
        return false;
    status[n] = 0;
    return true;
}

/* The released rank that a thread belongs to; NULL: none. */
static struct rank *rank_of (struct keeper *k, pid_t thread, char *status)
{
    pid_t leader;

    if (!read_status (thread, status))
        return NULL;
    leader = (pid_t) field (status, "\nTgid:", 10);
    for (size_t i = 0; i < k->n_begun; i++)
        if (k->ranks[i].unix_pid == leader
            && k->ranks[i].state == RANK_RELEASED)
            return &k->ranks[i];
    return NULL;
}

static bool will_end (const struct rank *rank, int signo, const char *status)
{
    uint64_t bit = keeper_signal_bit (signo);

    return !(rank->sent & bit)          /* its end is our own wish */
           && !(field (status, "\nSigIgn:", 16) & bit)
           && !(field (status, "\nSigCgt:", 16) & bit);
}

bool trace_dying (struct keeper *k, pid_t thread, int wait_status)
{
    int event = wait_status >> 16, signo = WSTOPSIG (wait_status);
    char status[STATUS_BYTES];
    struct report *report;
    struct rank *rank;

    if (k->is_ending || !k->spec->is_traced)
        return false;
    if (event == PTRACE_EVENT_STOP) {   /* the other threads stop, too */
        if (k->n_dying_held == 0 || !(rank = rank_of (k, thread, status))
            || rank->dying_of == 0)
            return false;
        ptrace (PTRACE_DETACH, thread, NULL, NULL);
        return true;
    }
    if (event != 0 || is_harmless (signo)
        || !(rank = rank_of (k, thread, status)) || rank->dying_of != 0
        || !will_end (rank, signo, status))
        return false;
    if (ptrace (PTRACE_DETACH, thread, NULL, (long) SIGSTOP) != 0)
        return false;
    rank->dying_of = signo;
    k->n_dying_held++;
    report = report_add (&k->box, REPORT_DYING,
                         keeper_rank (k, (size_t) (rank - k->ranks)));
    report->value = signo;
    report->step = (uint32_t) thread;
    k->box.is_urgent = true;
    return true;
}

void trace_let_die (struct keeper *k, uint32_t rank)
{
    for (size_t i = 0; i < k->n_begun; i++) {
        struct rank *each = &k->ranks[i];

        if (keeper_rank (k, i) != rank || each->dying_of == 0
            || each->state != RANK_RELEASED)
            continue;
        kill (each->unix_pid, each->dying_of);
        kill (each->unix_pid, SIGCONT);
    }
}
