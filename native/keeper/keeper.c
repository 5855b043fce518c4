/* keeper.c - starts, watches, signals and ends one job's ranks on one node.
 *
 * A PCT spawns one keeper per job. Descriptor 3 is the control socket
 * (SOCK_SEQPACKET), 4 the specification, 5 the job's map for ranks that want
 * Portals; native/wire/KEEPER.md is the protocol. The keeper is a child
 * subreaper with the rights of the job's owner. Whatever ends the conversation (END, end of file, SIGTERM as parent-
 * death signal) ends every process below it, and only then it leaves.
 *
 * One loop over four descriptors: commands, signals, messages of children
 * that are on their way to user code, and the pipe that lets them go. It never waits for a
 * user's program or file: children do what may hang.
 *
 * Exit status: 0 nothing is left below; 64 the specification makes no sense;
 * 70 this node can not do what it asks (both after a FAILED report).
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "claim.h"
#include "descend.h"
#include "launched.h"
#include "mapped.h"
#include "message.h"
#include "report.h"
#include "spec.h"
#include "start.h"
#include "trace.h"

#define CONTROL_FD 3
#define SPEC_FD 4
#define EXIT_NONSENSE 64
#define EXIT_CAN_NOT 70

#define START_BATCH 16                  /* ranks per packet: 64 descriptors */
#define ALL_RANKS UINT32_MAX
#define NICER_BY 5
#define COMPANY_MS 2
#define KILL_WAIT_MIN_MS 10             /* between passes over what is left */
#define KILL_WAIT_MAX_MS 1000
#define LOOK_FIRST_MS 5                 /* after go; then twice as late each */
#define LOOK_LAST_MS (5 << 22)          /* six hours */
#define LOOK_MAX_PROCESSES 64           /* below a rank, at one look */

enum command_kind {
    COMMAND_GO = 1,
    COMMAND_SIGNAL = 2,
    COMMAND_END = 3,
};

struct command {
    uint32_t kind;
    uint32_t rank;                      /* SIGNAL: the rank, or ALL_RANKS */
    int32_t signo;
    uint32_t zero;
};
_Static_assert (sizeof (struct command) == 16, "native/wire/KEEPER.md");

enum rank_state {
    RANK_NOT_STARTED,
    RANK_STARTING,
    RANK_HELD,
    RANK_RELEASED,
    RANK_ENDED,
};

struct rank {
    pid_t unix_pid;
    int pmi_fd;                         /* its number there; -1: none */
    enum rank_state state;
    enum held_how how;
    uint64_t sent;                      /* bit signo - 1: we sent it that */
};

struct keeper {
    struct spec *spec;
    struct starter starter;
    struct rank *ranks;
    size_t n_started;                   /* ranks [0, n_started) were tried */
    bool is_go;
    size_t go_owed;                     /* bytes that the pipe has not taken */
    bool is_ending;
    bool has_children;
    int signal_fd;
    struct outbox box;
    size_t n_dying;                     /* were killed, not yet reaped */
    int kill_wait_ms;
    uint64_t go_ms;                     /* monotonic */
    int look_ms;                        /* after go; 0: look no more */
    size_t seen_index;                  /* whose library this is: */
    char seen[CLAIM_BYTES];
};

/* --- the start of the keeper itself ----------------------------------- */

__attribute__ ((format (printf, 3, 4)))
_Noreturn static void give_up (struct keeper *k, int exit_status,
                               const char *format, ...)
{
    char text[REPORT_TEXT_BYTES];
    va_list arguments;

    va_start (arguments, format);
    vsnprintf (text, sizeof (text), format, arguments);
    va_end (arguments);
    report_set_text (report_add (&k->box, REPORT_FAILED, 0), text);
    if (!report_flush (&k->box) || k->box.is_broken)
        dprintf (2, "yod-keeper: %s\n", text);
    exit (exit_status);
}

static void close_from (unsigned first)
{
    if (syscall (SYS_close_range, first, ~0u, 0) == 0)
        return;
    for (unsigned fd = first; fd < 65536; fd++)     /* Linux before 5.9 */
        close ((int) fd);
}

/* Whatever the PCT's parents ignored (nohup, a shell's `&`) or Python ignores
 * is nothing to the ranks, and an ignored SIGCHLD would reap for us. The call
 * is raw because libc refuses the two signals that it keeps for itself; zeros
 * are the default action. */
static int take_signals (void)
{
    static const uint64_t default_action[8];
    sigset_t all, ours;

    for (int signo = 1; signo < NSIG; signo++)
        syscall (SYS_rt_sigaction, signo, default_action, NULL,
                 sizeof (default_action[0]));
    sigfillset (&all);
    sigprocmask (SIG_SETMASK, &all, NULL);
    sigemptyset (&ours);
    sigaddset (&ours, SIGCHLD);
    sigaddset (&ours, SIGTERM);
    sigaddset (&ours, SIGINT);
    sigaddset (&ours, SIGHUP);
    return signalfd (-1, &ours, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* Ranks may fill the processors; whoever is to stop them must get one. Only
 * root can ask for that. */
static void take_priority (struct keeper *k)
{
    k->starter.niceness = getpriority (PRIO_PROCESS, 0);
    if (geteuid () == 0)
        setpriority (PRIO_PROCESS, 0, k->starter.niceness - NICER_BY);
}

/* Be the owner, for good. Only root can, and only root needs to. */
static void take_owner (struct keeper *k)
{
    const struct spec *spec = k->spec;

    if (geteuid () == 0 && (spec->uid != 0 || spec->gid != getgid ())) {
        if (setgroups (spec->n_groups, spec->groups) != 0
            || setresgid (spec->gid, spec->gid, spec->gid) != 0
            || setresuid (spec->uid, spec->uid, spec->uid) != 0)
            give_up (k, EXIT_CAN_NOT, "cannot become uid %u gid %u: %s",
                     spec->uid, spec->gid, strerror (errno));
    }
    if (getuid () != spec->uid || geteuid () != spec->uid)
        give_up (k, EXIT_CAN_NOT, "cannot become uid %u: this is uid %u",
                 spec->uid, geteuid ());
}

static void take_parent (struct keeper *k)
{
    /* After the change of uid, which clears it. The parent may have died
     * before: then nothing was started, and there is nothing to end. */
    prctl (PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid () != k->spec->parent)
        give_up (k, EXIT_CAN_NOT, "the parent is process %d, not %d",
                 getppid (), k->spec->parent);
}

static void prepare (struct keeper *k)
{
    const char *problem;

    k->box.socket = CONTROL_FD;
    close_from (PORTALS_FD + 1);
    for (int fd = 0; fd < 3; fd++)      /* ours must never be 0, 1 or 2 */
        if (fcntl (fd, F_GETFD) < 0)
            open ("/dev/null", O_RDWR);
    fcntl (CONTROL_FD, F_SETFD, FD_CLOEXEC);
    if ((problem = spec_read (SPEC_FD, &k->spec)))
        give_up (k, EXIT_NONSENSE, "specification: %s", problem);
    close (SPEC_FD);
    if (!k->spec->wants_portals)
        close (PORTALS_FD);
    else if (fcntl (PORTALS_FD, F_SETFD, FD_CLOEXEC) != 0)
        give_up (k, EXIT_CAN_NOT, "no file for the job's map");
    if ((k->signal_fd = take_signals ()) < 0)
        give_up (k, EXIT_CAN_NOT, "signals: %s", strerror (errno));
    if (prctl (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        give_up (k, EXIT_CAN_NOT, "subreaper: %s", strerror (errno));
    take_priority (k);
    take_owner (k);
    take_parent (k);
    umask (k->spec->umask);
    if ((problem = start_prepare (&k->starter, k->spec)))
        give_up (k, EXIT_CAN_NOT, "%s: %s", problem, strerror (errno));
    k->ranks = calloc (k->spec->n_ranks, sizeof (*k->ranks));
    if (!k->ranks)
        give_up (k, EXIT_CAN_NOT, "no memory");
    k->kill_wait_ms = KILL_WAIT_MIN_MS;
}

/* --- starting and holding ------------------------------------------------ */

static uint32_t number (const struct keeper *k, size_t index)
{
    return k->spec->ranks[index].rank;
}

/* A rank without a process ends as one whose exec failed. */
static void end_unstarted (struct keeper *k, size_t index)
{
    struct report *report;

    k->ranks[index].state = RANK_ENDED;
    report = report_add (&k->box, REPORT_ENDED, number (k, index));
    report->value = W_EXITCODE (126, 0);
}

static void start_some (struct keeper *k)
{
    for (int i = 0; i < START_BATCH && k->n_started < k->spec->n_ranks; i++) {
        size_t index = k->n_started++;
        struct rank *rank = &k->ranks[index];

        rank->unix_pid = start_rank (&k->starter, index, &k->box,
                                     &rank->pmi_fd);
        if (rank->unix_pid == 0) {
            end_unstarted (k, index);
        } else {
            rank->state = RANK_STARTING;
            k->has_children = true;
        }
    }
}

static void release (struct keeper *k, size_t index)
{
    struct rank *rank = &k->ranks[index];

    if (rank->state != RANK_HELD)
        return;
    rank->state = RANK_RELEASED;
    if (rank->how == HELD_PRELOAD)
        k->go_owed++;
    else if (rank->how == HELD_TRACE)
        trace_release (rank->unix_pid);
    else
        start_open_gate (&k->starter, index, GATE_GO);
}

/* One byte for each rank. What the pipe does not take at once follows when ranks
 * have read. */
static void write_go (struct keeper *k)
{
    static const char bytes[PIPE_BUF];

    while (k->go_owed > 0) {
        size_t count = k->go_owed < PIPE_BUF ? k->go_owed : PIPE_BUF;
        ssize_t n = write (k->starter.go_writer, bytes, count);

        if (n > 0)
            k->go_owed -= (size_t) n;
        else if (errno != EINTR)
            break;
    }
}

static uint64_t now_ms (void)
{
    struct timespec now;

    clock_gettime (CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

static void release_all (struct keeper *k)
{
    k->is_go = true;
    for (size_t i = 0; i < k->spec->n_ranks; i++)
        release (k, i);
    write_go (k);
    k->go_ms = now_ms ();
    k->look_ms = LOOK_FIRST_MS;
}

static void hold (struct keeper *k, size_t index, enum held_how how)
{
    struct rank *rank = &k->ranks[index];

    if (rank->state != RANK_STARTING)
        return;                         /* a message that is not true */
    rank->state = RANK_HELD;
    rank->how = how;
    report_add (&k->box, REPORT_HELD, number (k, index))->value = (int) how;
    if (k->is_go) {                     /* the PCT did not wait for this one */
        release (k, index);
        write_go (k);
    }
}

static void answer_trace (struct keeper *k, size_t index)
{
    const struct rank *rank = &k->ranks[index];

    if (rank->state != RANK_STARTING)
        return;
    start_open_gate (&k->starter, index, trace_start (rank->unix_pid)
                     ? GATE_TRACED : GATE_NOT_TRACED);
}

static void report_exec_failed (struct keeper *k, const struct message *m)
{
    struct report *report;

    report = report_add (&k->box, REPORT_EXEC_FAILED, number (k, m->index));
    report->value = m->error;
    report->step = m->step;
    report_set_text (report, m->text);
}

static void take_messages (struct keeper *k)
{
    struct message m;
    ssize_t n;

    while ((n = read (k->starter.messages_fd, &m, sizeof (m))) > 0) {
        if (n != sizeof (m) || m.index >= k->n_started
            || k->ranks[m.index].state == RANK_ENDED)
            continue;
        m.text[sizeof (m.text) - 1] = 0;
        switch ((enum message_kind) m.kind) {
        case MESSAGE_FAILED:
            report_exec_failed (k, &m);
            break;
        case MESSAGE_TRACE_ME:
            answer_trace (k, m.index);
            break;
        case MESSAGE_HELD:
            hold (k, m.index, HELD_PRELOAD);
            break;
        case MESSAGE_HELD_BEFORE_EXEC:
            hold (k, m.index, HELD_BEFORE_EXEC);
            break;
        }
    }
}

/* --- children ------------------------------------------------------------ */

static size_t find (const struct keeper *k, pid_t unix_pid)
{
    size_t i;

    for (i = 0; i < k->n_started; i++)
        if (k->ranks[i].unix_pid == unix_pid
            && k->ranks[i].state != RANK_ENDED)
            break;
    return i;
}

static uint64_t microseconds (const struct timeval *t)
{
    return (uint64_t) t->tv_sec * 1000000u + (uint64_t) t->tv_usec;
}

static uint64_t signal_bit (int signo)
{
    return (uint64_t) 1 << (signo - 1);
}

static void report_claim (const struct keeper *k, size_t index,
                          int wait_status, struct report *report)
{
    const struct rank *rank = &k->ranks[index];
    char text[CLAIM_BYTES];

    if (!WIFEXITED (wait_status) || rank->state != RANK_RELEASED)
        return;
    if (rank->how == HELD_PRELOAD
        && claim_read (k->starter.claims_fd, index, text))
        report_set_text (report, text);
    else if (*k->seen && k->seen_index == index)
        report_set_text (report, k->seen);
}

static void report_ended (struct keeper *k, size_t index, int wait_status,
                          const struct rusage *used)
{
    struct rank *rank = &k->ranks[index];
    struct timespec now;
    struct report *report;

    /* What it wrote, it wrote before its end: "why" comes before "that". */
    if (rank->state != RANK_RELEASED || rank->how == HELD_BEFORE_EXEC)
        take_messages (k);
    clock_gettime (CLOCK_MONOTONIC, &now);
    report = report_add (&k->box, REPORT_ENDED, number (k, index));
    report->value = wait_status;
    report->flags = rank->state == RANK_RELEASED ? REPORT_WAS_RELEASED : 0;
    if (WIFSIGNALED (wait_status)
        && rank->sent & signal_bit (WTERMSIG (wait_status)))
        report->flags |= REPORT_WAS_SIGNALLED;
    report->user_us = microseconds (&used->ru_utime);
    report->system_us = microseconds (&used->ru_stime);
    report->max_rss_kb = (uint64_t) used->ru_maxrss;
    report->ended_at_ns = (uint64_t) now.tv_sec * 1000000000u
                          + (uint64_t) now.tv_nsec;
    report_claim (k, index, wait_status, report);
    rank->state = RANK_ENDED;
}

static void reap (struct keeper *k)
{
    struct rusage used;
    int wait_status;
    size_t index;
    pid_t child;

    while ((child = wait4 (-1, &wait_status, WNOHANG | __WALL, &used)) > 0) {
        index = find (k, child);
        if (WIFSTOPPED (wait_status)) {         /* only what we trace */
            if (trace_stopped (child, wait_status) && index < k->n_started)
                hold (k, index, HELD_TRACE);
            continue;
        }
        if (k->n_dying > 0)
            k->n_dying--;
        if (index < k->n_started)
            report_ended (k, index, wait_status, &used);
    }
    if (child < 0 && errno == ECHILD)
        k->has_children = false;
}

/* Look for the MPI library of a process that is a rank's, or was started by
 * it. Its environment is read after its maps: what has a library has begun its
 * program, so that both are of the same one. */
static bool look_at (struct keeper *k, size_t index, pid_t unix_pid)
{
    const struct rank *rank = &k->ranks[index];
    char text[CLAIM_BYTES];

    if (!mapped_find (unix_pid, text)
        || !launched_by_us (unix_pid, k->spec, &k->spec->ranks[index],
                            rank->pmi_fd))
        return false;
    memcpy (k->seen, text, sizeof (text));
    k->seen_index = index;
    k->look_ms = 0;
    return true;
}

/* A preloaded rank speaks for its first program itself. */
static bool look_at_rank (struct keeper *k, size_t index)
{
    const struct rank *rank = &k->ranks[index];

    return (rank->how != HELD_PRELOAD
            || !mapped_is_program (rank->unix_pid,
                                   k->spec->ranks[index].program->path))
           && look_at (k, index, rank->unix_pid);
}

static void look_below (struct keeper *k, size_t index)
{
    pid_t below[LOOK_MAX_PROCESSES];
    size_t count = descend_list (k->ranks[index].unix_pid, below,
                                 LOOK_MAX_PROCESSES);

    for (size_t i = 0; i < count; i++)
        if (look_at (k, index, below[i]))
            return;
}

/* Look at the first rank that lives: of all that do alike, one says enough. */
static void look (struct keeper *k)
{
    for (size_t i = 0; i < k->n_started; i++)
        if (k->ranks[i].state == RANK_RELEASED) {
            if (!look_at_rank (k, i))
                look_below (k, i);
            return;
        }
    k->look_ms = 0;                     /* nobody is left */
}

/* How long until the next look, which is made here when its time has come.
 *   -1  never
 */
static int look_when_due (struct keeper *k)
{
    uint64_t passed_ms = now_ms () - k->go_ms;

    if (k->look_ms > 0 && passed_ms >= (uint64_t) k->look_ms) {
        look (k);
        while (k->look_ms > 0 && passed_ms >= (uint64_t) k->look_ms)
            k->look_ms = k->look_ms < LOOK_LAST_MS ? 2 * k->look_ms : 0;
    }
    return k->look_ms > 0 ? (int) ((uint64_t) k->look_ms - passed_ms) : -1;
}

/* --- commands ------------------------------------------------------------ */

/* A rank is sent a signal. One that is dying by now, as its peers may have
 * seen by their sockets before we can reap it, does not die of this one. */
static void note_sent (struct rank *rank, int signo)
{
    if (signo != SIGSTOP && !descend_is_exiting (rank->unix_pid))
        rank->sent |= signal_bit (signo);
}

/* To the group of a rank; to its process alone while that has not yet made
 * its session. What is stopped ends by SIGTERM only when it is continued. */
static void send_to_group (pid_t unix_pid, int signo)
{
    if (kill (-unix_pid, signo) != 0 && errno == ESRCH)
        kill (unix_pid, signo);
    if (signo == SIGTERM)
        send_to_group (unix_pid, SIGCONT);
}

/* To ranks that have not ended: until we reap a group's leader no other
 * process can have got that number. Who has died already is reaped first:
 * this signal is not what ended it. */
static void send_signal (struct keeper *k, uint32_t rank, int signo)
{
    reap (k);
    for (size_t i = 0; i < k->n_started; i++)
        if (k->ranks[i].unix_pid > 0 && k->ranks[i].state != RANK_ENDED
            && (rank == ALL_RANKS || rank == number (k, i))) {
            note_sent (&k->ranks[i], signo);
            send_to_group (k->ranks[i].unix_pid, signo);
        }
}

static void obey (struct keeper *k, const struct command *command)
{
    switch ((enum command_kind) command->kind) {
    case COMMAND_GO:
        release_all (k);
        break;
    case COMMAND_SIGNAL:
        if (command->signo > 0 && command->signo < NSIG)
            send_signal (k, command->rank, command->signo);
        break;
    case COMMAND_END:
        k->is_ending = true;
        break;
    }
}

static void take_commands (struct keeper *k)
{
    struct command command;
    ssize_t n;

    while (!k->is_ending) {
        n = recv (CONTROL_FD, &command, sizeof (command), MSG_DONTWAIT);
        if (n == sizeof (command))
            obey (k, &command);
        else if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        else                            /* end of file, or not a command */
            k->is_ending = true;
    }
}

static void take_signal_records (struct keeper *k)
{
    struct signalfd_siginfo signals[8];
    ssize_t n;

    while ((n = read (k->signal_fd, signals, sizeof (signals))) > 0)
        for (size_t i = 0; i < (size_t) n / sizeof (signals[0]); i++)
            if (signals[i].ssi_signo != SIGCHLD)
                k->is_ending = true;
}

/* --- the end ------------------------------------------------------------- */

/* Kill what is left once all that was killed before has been reaped, or when
 * that takes long: a process in the kernel's hands, or one of another uid. */
static void kill_more (struct keeper *k, bool has_waited)
{
    if (k->n_dying > 0 && !has_waited)
        return;
    if (has_waited && k->kill_wait_ms < KILL_WAIT_MAX_MS)
        k->kill_wait_ms *= 2;
    /* Whole groups first: one call for each, where a walk over hundreds of
     * busy processes would get little of the processor. */
    send_signal (k, ALL_RANKS, SIGSTOP);
    for (size_t i = 0; i < k->n_started; i++)
        if (k->ranks[i].unix_pid > 0 && k->ranks[i].state != RANK_ENDED)
            note_sent (&k->ranks[i], SIGKILL);
    if ((k->n_dying = descend_kill ()) == 0)
        send_signal (k, ALL_RANKS, SIGKILL);    /* no /proc */
}

_Noreturn static void leave (struct keeper *k)
{
    struct pollfd out = { .fd = CONTROL_FD, .events = POLLOUT };

    take_messages (k);
    report_add (&k->box, REPORT_EMPTY, 0);
    while (!report_flush (&k->box))
        poll (&out, 1, KILL_WAIT_MAX_MS);
    exit (0);
}

/* --- the loop ------------------------------------------------------------ */

static bool all_started (const struct keeper *k)
{
    return k->n_started == k->spec->n_ranks;
}

/* Sleep until something happens.
 *   true   nothing did, for as long as a killed process may take
 */
static bool wait_for_event (struct keeper *k, bool is_flushed)
{
    struct pollfd fds[] = {
        { .fd = CONTROL_FD, .events = 0 },
        { .fd = k->signal_fd, .events = POLLIN },
        { .fd = k->starter.messages_fd, .events = POLLIN },
        { .fd = k->go_owed > 0 ? k->starter.go_writer : -1, .events = POLLOUT },
    };
    int timeout_ms = -1, n;

    if (!is_flushed)
        fds[0].events |= POLLOUT;
    /* Commands concern all ranks: they wait until all are started. */
    if (all_started (k) && !k->is_ending)
        fds[0].events |= POLLIN;
    if (k->is_ending) {
        timeout_ms = k->has_children ? k->kill_wait_ms : 0;
        if (k->box.is_broken)
            fds[0].fd = -1;             /* else it hangs up without a pause */
    } else if (!all_started (k) && is_flushed) {
        timeout_ms = 0;
    } else if (k->look_ms > 0) {
        timeout_ms = look_when_due (k);
    }
    n = poll (fds, 4, timeout_ms);
    if (n > 0 && fds[0].revents & (POLLHUP | POLLERR)) {
        k->is_ending = true;
        k->box.is_broken = true;
    } else if (n > 0 && fds[0].revents & POLLIN) {
        take_commands (k);
    }
    if (n > 0 && fds[1].revents)
        take_signal_records (k);
    if (n > 0 && fds[2].revents)
        take_messages (k);
    if (n > 0 && fds[3].revents)
        write_go (k);
    return n == 0;
}

/* A rank is held a millisecond after its start. Said in one packet, the two are
 * one wake-up of the PCT, which dozens of keepers may share a processor with. */
static void wait_for_company (struct keeper *k)
{
    struct pollfd messages = { .fd = k->starter.messages_fd, .events = POLLIN };

    if (k->spec->n_ranks == 1 && poll (&messages, 1, COMPANY_MS) > 0)
        take_messages (k);
}

int main (void)
{
    static struct keeper k;
    bool is_flushed, has_waited = false;

    prepare (&k);
    for (;;) {
        /* With every rank and all that they started gone there is nothing to
         * own: no word from the PCT is waited for. */
        if (all_started (&k) && !k.has_children)
            leave (&k);
        is_flushed = report_flush (&k.box);
        if (k.is_ending) {
            reap (&k);
            if (!k.has_children)
                leave (&k);
            kill_more (&k, has_waited);
        } else if (is_flushed && !all_started (&k)) {
            start_some (&k);
            wait_for_company (&k);
            is_flushed = report_flush (&k.box);
        }
        has_waited = wait_for_event (&k, is_flushed);
        reap (&k);
    }
}
