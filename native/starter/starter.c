/* starter.c - yod-starter: starts programs on this host for a process that
 * has many of them to run.
 *
 *     yod-starter
 *     yod-starter HOST:PORT KEY_FILE
 *
 * With arguments it connects to its caller (relay.h). Else descriptor 3 is a connected AF_UNIX, SOCK_SEQPACKET socket: orders come in,
 * reports go out (native/wire/STARTER.md). Each program has a keeper of its
 * own (keep.h), forked from this process, which is small: that costs a tenth
 * of an exec. Keepers report by themselves. The starter reports what has no
 * keeper, and keepers that were killed. When the other end of the socket is
 * closed all programs end, and then the starter.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../keeper/descend.h"
#include "keep.h"
#include "order.h"
#include "relay.h"
#include "report.h"

#define CALLER 3
#define PACKET_BYTES (1u << 20)
#define ORDERS_PER_TURN 64              /* then ended keepers are looked for */

struct program {
    pid_t keeper;
    uint32_t number;
};

static struct program *programs;
static size_t n_programs, room;

static void report_error (uint32_t number, enum report_kind kind,
                          enum report_step step, int value)
{
    struct report report = { .kind = kind, .number = number,
                             .value = value, .step = step };

    for (int i = 0; i < TIMES; i++)
        report.times_ns[i] = report_now ();
    report_send (&report, CALLER);
}

static bool make_room (void)
{
    size_t more = room ? 2 * room : 64;
    struct program *list;

    if (n_programs < room)
        return true;
    if (!(list = realloc (programs, more * sizeof (*list))))
        return false;
    programs = list;
    room = more;
    return true;
}

static void start (const struct order *order, pid_t self)
{
    pid_t keeper = make_room () ? fork () : -1;

    if (keeper == 0)
        keep (order, self, CALLER);
    if (keeper < 0) {
        report_error (order->number, REPORT_FAILED, STEP_FORK, errno);
        return;
    }
    programs[n_programs].keeper = keeper;
    programs[n_programs++].number = order->number;
}

static void tell (const struct order *order)
{
    union sigval value = { .sival_int = order->signo };

    for (size_t i = 0; i < n_programs; i++) {
        if (programs[i].number != order->number)
            continue;
        if (order->kind == ORDER_END)
            kill (programs[i].keeper, KEEP_END);
        else if (order->signo > 0 && order->signo < NSIG)
            sigqueue (programs[i].keeper, KEEP_SIGNAL, value);
    }
}

/* Returns false when the caller has gone. */
static bool take_order (char *packet, pid_t self)
{
    ssize_t size = recv (CALLER, packet, PACKET_BYTES, MSG_DONTWAIT);
    struct order order;

    if (size < 0)
        return errno == EAGAIN || errno == EINTR;
    if (size == 0)
        return false;
    packet[size] = 0;
    if (!order_read (&order, packet, (size_t) size)) {
        report_error (order.number, REPORT_FAILED, STEP_ORDER, EPROTO);
        return true;
    }
    if (order.kind == ORDER_START)
        start (&order, self);
    else
        tell (&order);
    order_free (&order);
    return true;
}

static void ended (pid_t child, int status)
{
    for (size_t i = 0; i < n_programs; i++) {
        if (programs[i].keeper != child)
            continue;
        if (status != 0)
            report_error (programs[i].number, REPORT_LOST, 0, status);
        programs[i] = programs[--n_programs];
        return;
    }
}

/* What comes to us without being a keeper has lost its keeper. */
static void kill_orphans (void)
{
    pid_t *keepers = calloc (n_programs + 1, sizeof (*keepers));

    for (size_t i = 0; keepers && i < n_programs; i++)
        keepers[i] = programs[i].keeper;
    if (keepers)
        descend_kill (keepers, n_programs);
    free (keepers);
}

static void reap (void)
{
    bool is_one_lost = false;
    pid_t child;
    int status;

    while ((child = waitpid (-1, &status, WNOHANG)) > 0) {
        is_one_lost |= status != 0;
        ended (child, status);
    }
    if (is_one_lost)
        kill_orphans ();
}

static void end_all (void)
{
    for (size_t i = 0; i < n_programs; i++)
        kill (programs[i].keeper, KEEP_END);
    while (n_programs > 0) {
        int status;
        pid_t child = waitpid (-1, &status, 0);

        if (child < 0)
            break;
        ended (child, status);
        if (status != 0)
            kill_orphans ();
    }
}

static void serve (char *packet, int signals)
{
    struct pollfd ends[2] = { { .fd = CALLER, .events = POLLIN },
                              { .fd = signals, .events = POLLIN } };
    struct signalfd_siginfo told;
    pid_t self = getpid ();

    for (;;) {
        if (poll (ends, 2, -1) < 0 && errno != EINTR)
            return;
        if (ends[1].revents && read (signals, &told, sizeof (told)) > 0) {
            if (told.ssi_signo == SIGTERM)
                return;
            reap ();
        }
        for (int i = 0; ends[0].revents && i < ORDERS_PER_TURN; i++) {
            if (!take_order (packet, self))
                return;
            ends[0].revents = 0;
            poll (ends, 1, 0);
        }
    }
}

/* The starter is a child of this process, which relays. Returns in the child. */
static bool serve_other_host (const char *address, const char *key_file)
{
    int pair[2], connection = relay_connect (address, key_file);
    pid_t child;

    if (connection < 0
        || socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        fprintf (stderr, "yod-starter: %s: %s\n", address, strerror (errno));
        return false;
    }
    if ((child = fork ()) == 0) {
        close (connection);
        close (pair[0]);
        if (pair[1] == CALLER)
            return true;
        return dup2 (pair[1], CALLER) >= 0 && close (pair[1]) == 0;
    }
    close (pair[1]);
    if (child > 0)
        relay_run (connection, pair[0]);
    while (child > 0 && waitpid (child, NULL, 0) < 0 && errno == EINTR)
        ;
    exit (child > 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* A program is not to hold what its caller's caller has left open: a lock, the
 * end of a pipe. */
static void close_others (void)
{
#ifdef SYS_close_range
    syscall (SYS_close_range, CALLER + 1, ~0U, 0);
#endif
}

int main (int argc, char **argv)
{
    char *packet = malloc (PACKET_BYTES + 1);
    sigset_t mine;
    int signals;

    if (argc == 3 && !serve_other_host (argv[1], argv[2]))
        return EXIT_FAILURE;
    fcntl (CALLER, F_SETFD, FD_CLOEXEC);
    close_others ();
    sigemptyset (&mine);
    sigaddset (&mine, SIGCHLD);
    sigaddset (&mine, SIGTERM);
    sigaddset (&mine, KEEP_END);
    sigaddset (&mine, KEEP_SIGNAL);
    sigprocmask (SIG_SETMASK, &mine, NULL);
    sigdelset (&mine, KEEP_END);
    sigdelset (&mine, KEEP_SIGNAL);
    signals = signalfd (-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK);
    if (!packet || signals < 0 || prctl (PR_SET_CHILD_SUBREAPER, 1) != 0) {
        perror ("yod-starter");
        return EXIT_FAILURE;
    }
    serve (packet, signals);
    end_all ();
    return EXIT_SUCCESS;
}
