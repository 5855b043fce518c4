#include "standin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "signals.h"

static struct termios modes;            /* of the terminal, at the start */

enum { AT_SIGNALS, AT_WORD, N_FDS };

/* Stop as yod has been stopped. Who continues us means yod. */
static void stop_with (pid_t yod, int signo)
{
    if (signo == SIGSTOP)
        kill (getpid (), SIGSTOP);
    else
        signals_stop_self ();
    kill (yod, SIGCONT);
}

/* yod may have been killed while a rank had the terminal, which it is then to
 * have no more. In the background it is somebody else's. */
static void restore_terminal (void)
{
    if (tcgetpgrp (0) == getpgrp ())
        tcsetattr (0, TCSADRAIN, &modes);
}

static void look_at (pid_t yod)
{
    int status;

    while (waitpid (yod, &status, WNOHANG | WUNTRACED) > 0) {
        if (WIFSTOPPED (status))
            stop_with (yod, WSTOPSIG (status));
        else if (WIFSIGNALED (status)) {
            restore_terminal ();
            signals_die (WTERMSIG (status));
        } else
            _exit (WEXITSTATUS (status));
    }
}

/* What the terminal sends goes to yod as well, which is in the same group; but a
 * hang-up may be for the leader of the session alone. */
static void pass (pid_t yod, const struct signalfd_siginfo *record)
{
    int signo = (int) record->ssi_signo;

    if (signo == SIGCHLD)
        look_at (yod);
    else if (record->ssi_code <= 0 || signo == SIGHUP)
        kill (yod, signo);
}

static void read_signals (pid_t yod, int fd)
{
    struct signalfd_siginfo records[8];
    ssize_t n = read (fd, records, sizeof (records));

    for (ssize_t i = 0; i < n / (ssize_t) sizeof (records[0]); i++)
        pass (yod, &records[i]);
}

/* Whether yod may still say something. */
static bool hear (int fd)
{
    char word[STANDIN_WORD_ROOM];
    ssize_t n = read (fd, word, sizeof (word));

    if (n > 1)
        dprintf (2, "%.*s", (int) n - 1, word + 1);
    if (n > 0)
        _exit (word[0]);
    return n < 0 && errno == EINTR;
}

static _Noreturn void stand (pid_t yod, int signal_fd, int word_fd)
{
    struct pollfd fds[N_FDS] = {
        [AT_SIGNALS] = { .fd = signal_fd, .events = POLLIN },
        [AT_WORD] = { .fd = word_fd, .events = POLLIN },
    };

    for (;;) {
        poll (fds, N_FDS, -1);
        if (fds[AT_WORD].revents && !hear (word_fd))
            fds[AT_WORD].fd = -1;
        if (fds[AT_SIGNALS].revents)
            read_signals (yod, signal_fd);
    }
}

/* Be yod, as this program was started. */
static void be_yod (pid_t stand_in, struct signals *signals)
{
    prctl (PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid () != stand_in)
        _exit (128 + SIGKILL);          /* it was killed before */
    close (signals->fd);
    signals_give_back (signals);
}

int standin_begin (void)
{
    struct signals signals = { .fd = -1 };
    pid_t stand_in = getpid (), yod;
    int ends[2];

    unsetenv (STANDIN_VARIABLE);
    if (tcgetattr (0, &modes) != 0 || pipe2 (ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return -1;
    signals.ignored = signals_ignored ();
    if (!signals_take (&signals)) {
        close (ends[0]);
        close (ends[1]);
        return -1;
    }
    if ((yod = fork ()) > 0) {
        close (ends[1]);
        stand (yod, signals.fd, ends[0]);
    }
    close (ends[0]);
    if (yod == 0) {
        be_yod (stand_in, &signals);
        return ends[1];
    }
    close (ends[1]);
    close (signals.fd);
    signals_give_back (&signals);
    return -1;
}

void standin_hand_on (int word_fd)
{
    char number[16];

    snprintf (number, sizeof (number), "%d", word_fd);
    if (setenv (STANDIN_VARIABLE, number, 1) == 0)
        fcntl (word_fd, F_SETFD, 0);
}

/* The terminal is nobody's here, and a pipe has one writer less. */
static void leave_streams (void)
{
    int null = open ("/dev/null", O_RDWR | O_CLOEXEC);
    struct stat status;

    for (int fd = 0; fd < 3 && null >= 0; fd++)
        if (fstat (fd, &status) == 0 && !S_ISREG (status.st_mode))
            dup2 (null, fd);
    if (null >= 0)
        close (null);
}

void standin_end (int word_fd, const char *text, size_t size)
{
    struct iovec parts[] = {
        { .iov_base = (char[]) { 0 }, .iov_len = 1 },
        { .iov_base = (void *) text, .iov_len = size },
    };

    setsid ();                          /* fails for a leader, which stays */
    leave_streams ();
    if (word_fd < 0)
        return;
    prctl (PR_SET_PDEATHSIG, 0, 0, 0, 0);
    (void) !writev (word_fd, parts, 2); /* it may have ended */
    close (word_fd);
}
