/* keeper.c - starts, watches, signals and ends one job's ranks on one node.
 *
 * A PCT spawns one keeper per job (main.c), or has a client of the launch
 * server start it (native/client/keepers.c). Descriptor 3 is the control socket
 * (SOCK_SEQPACKET), 4 the specification, 5 the job's map for ranks that want
 * Portals; native/wire/KEEPER.md is the protocol. The keeper is a child
 * subreaper with the rights of the job's owner. When the conversation ends
 * (END, end of file, or SIGTERM, which it gets when its parent dies), it kills
 * every process below it, and exits when none is left.
 *
 * One loop over four descriptors: commands, signals, messages of children
 * that are on their way to user code, and the pipe that releases them; and
 * three more where a rank has a terminal (terminal.h). The
 * keeper never waits for a user's program or file: its children do what may
 * hang.
 *
 * Exit status: 0 nothing is left below; 64 the specification makes no sense;
 * 70 this node cannot do what it asks (both after a FAILED report).
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "begin.h"
#include "clock.h"
#include "hold.h"
#include "keeper.h"
#include "look.h"
#include "prepare.h"
#include "reap.h"
#include "signals.h"
#include "trace.h"

#define COMPANY_MS 2
#define MAKE_WAIT_MS 1000
#define HELD_TOGETHER_MS 20
#define ENDED_TOGETHER_MS 2
#define N_OWN_FDS 4

enum command_kind {
    COMMAND_GO = 1,
    COMMAND_SIGNAL = 2,
    COMMAND_END = 3,
    COMMAND_WINDOW = 4,
    COMMAND_LET_DIE = 5,
};

struct command {
    uint32_t kind;
    uint32_t rank;                      /* SIGNAL: or ALL_RANKS; LET_DIE */
    int32_t signo;                      /* WINDOW: rows, columns << 16 */
    uint32_t zero;
};
_Static_assert (sizeof (struct command) == 16, "native/wire/KEEPER.md");

/* --- commands ------------------------------------------------------------ */

static void obey (struct keeper *k, const struct command *command)
{
    switch ((enum command_kind) command->kind) {
    case COMMAND_GO:
        hold_release_all (k);
        break;
    case COMMAND_SIGNAL:
        if (command->signo > 0 && command->signo < NSIG)
            signal_obey (k, command->rank, command->signo);
        break;
    case COMMAND_END:
        k->is_ending = true;
        break;
    case COMMAND_WINDOW:
        terminal_resize (&k->starter.terminal, (uint32_t) command->signo);
        break;
    case COMMAND_LET_DIE:
        trace_let_die (k, command->rank);
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

_Noreturn static void leave (struct keeper *k)
{
    struct pollfd out = { .fd = CONTROL_FD, .events = POLLOUT };

    hold_take_messages (k);
    terminal_finish (&k->starter.terminal, KILL_WAIT_MAX_MS);
    begin_drop_outputs (k);
    report_add (&k->box, REPORT_EMPTY, 0);
    while (!report_flush (&k->box))
        poll (&out, 1, KILL_WAIT_MAX_MS);
    exit (0);
}

/* --- the loop ------------------------------------------------------------ */

/* How long reports may still wait. That ranks are held is of use to the PCT when
 * the last one is; told of each, it would be woken for each while they start.
 * A rank that comes late is not to hide for long who is there. Ranks that end
 * normally mostly end together; the last one is told at once, with EMPTY.
 */
static int held_back_ms (const struct keeper *k)
{
    int64_t left_ms = 0;

    if (k->is_ending || k->flushes_now)
        return 0;
    if (k->n_held > 0 && k->n_held < k->spec->n_ranks && !k->is_go)
        left_ms = k->held_at_ms + HELD_TOGETHER_MS - clock_ms ();
    else if (k->box.first < k->box.count && !k->box.is_urgent)
        left_ms = k->ended_at_ms + ENDED_TOGETHER_MS - clock_ms ();
    return left_ms > 0 ? (int) left_ms : 0;
}

/* Send what is to be sent now.
 *   true   no room in the socket is awaited
 */
static bool send_reports (struct keeper *k)
{
    if (held_back_ms (k) > 0)
        return true;
    begin_drop_outputs (k);
    if (!report_flush (&k->box))
        return false;
    k->flushes_now = false;
    return true;
}

/* Of two times, the one that comes first; -1: never. */
static int sooner (int one_ms, int other_ms)
{
    if (one_ms < 0 || other_ms < 0)
        return one_ms < 0 ? other_ms : one_ms;
    return one_ms < other_ms ? one_ms : other_ms;
}

/* How long commands wait. They concern all ranks: all are to have a process. A
 * spawner that takes long waits for a file of the owner's, maybe for ever. */
static int commands_wait_ms (const struct keeper *k)
{
    int64_t left_ms;

    if (keeper_has_begun_all (k) && k->n_batches == 0)
        return 0;
    left_ms = k->begun_ms + MAKE_WAIT_MS - clock_ms ();
    return left_ms > 0 ? (int) left_ms : 0;
}

/* When the next thing is to be done that no descriptor tells of. */
static int when_due (struct keeper *k, bool is_flushed, int wait_ms)
{
    int due_ms = sooner (look_when_due (k), signal_when_due (k));

    if (is_flushed && k->box.first < k->box.count)
        due_ms = sooner (due_ms, held_back_ms (k));
    return wait_ms > 0 ? sooner (due_ms, wait_ms) : due_ms;
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
        { .fd = k->go_owed > 0 ? k->starter.go_writer : -1,
          .events = POLLOUT },
        [N_OWN_FDS + TERMINAL_FDS - 1] = { .fd = -1 },
    };
    int timeout_ms = -1, wait_ms = commands_wait_ms (k), n;

    if (!is_flushed)
        fds[0].events |= POLLOUT;
    if (!k->is_ending && wait_ms == 0)
        fds[0].events |= POLLIN;
    if (k->is_ending) {
        timeout_ms = k->has_children ? k->kill_wait_ms : 0;
        if (k->box.is_broken)
            fds[0].fd = -1;             /* it would report its end at once */
    } else if (is_flushed && begin_may (k)) {
        timeout_ms = 0;
    } else {
        timeout_ms = when_due (k, is_flushed, wait_ms);
    }
    terminal_poll (&k->starter.terminal, fds + N_OWN_FDS);
    n = poll (fds, N_OWN_FDS + TERMINAL_FDS, timeout_ms);
    if (n > 0)
        terminal_carry (&k->starter.terminal, fds + N_OWN_FDS);
    if (n > 0 && fds[0].revents & (POLLHUP | POLLERR)) {
        k->is_ending = true;
        k->box.is_broken = true;
    } else if (n > 0 && fds[0].revents & POLLIN) {
        take_commands (k);
    }
    if (n > 0 && fds[1].revents)
        take_signal_records (k);
    if (n > 0 && fds[2].revents)
        hold_take_messages (k);
    if (n > 0 && fds[3].revents)
        hold_write_go (k);
    return n == 0;
}

/* A rank is held about a millisecond after its start. Reported in one packet,
 * the two wake the PCT once; dozens of keepers may share its processor. */
static void wait_for_company (struct keeper *k)
{
    struct pollfd messages = {
        .fd = k->starter.messages_fd,
        .events = POLLIN,
    };

    if (k->spec->n_ranks == 1 && poll (&messages, 1, COMPANY_MS) > 0)
        hold_take_messages (k);
}

_Noreturn void keeper_main (void)
{
    static struct keeper k;
    bool is_flushed, has_waited = false;

    prepare_keeper (&k);
    for (;;) {
        /* Every rank and all that they started are gone: leave without
         * waiting for a command of the PCT. */
        if (keeper_has_begun_all (&k) && !k.has_children)
            leave (&k);
        is_flushed = send_reports (&k);
        if (k.is_ending) {
            reap_children (&k);
            if (!k.has_children)
                leave (&k);
            signal_kill_rest (&k, has_waited);
        } else if (is_flushed && begin_may (&k)) {
            begin_some (&k);
            wait_for_company (&k);
        }
        has_waited = wait_for_event (&k, is_flushed);
        reap_children (&k);
    }
}
