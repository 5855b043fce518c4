#include "signals.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SIGNAL_BASE 128                 /* exit status of a death by signal */
#define LIBC_FIRST 32
#define LIBC_SECOND 33

static const int ENDING[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
static const int PASSED[] = { SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT };

#define COUNT(array) (sizeof (array) / sizeof ((array)[0]))

static bool is_ending (int signo)
{
    for (size_t i = 0; i < COUNT (ENDING); i++)
        if (ENDING[i] == signo)
            return true;
    return false;
}

static uint64_t bit (int signo)
{
    return (uint64_t) 1 << (signo - 1);
}

/* Two signals are glibc's own, three are musl's, which refuses to tell of 34:
 * the call is raw. What a libc has left set for the first two is no user's wish. */
uint64_t signals_ignored (void)
{
    struct { void (*handler) (int); uint64_t rest[7]; } action;
    uint64_t ignored = 0;

    for (int signo = 1; signo < NSIG; signo++)
        if (signo != LIBC_FIRST && signo != LIBC_SECOND
            && syscall (SYS_rt_sigaction, signo, NULL, &action, 8) == 0
            && action.handler == SIG_IGN)
            ignored |= bit (signo);
    return ignored;
}

static void add_wanted (const struct signals *signals, sigset_t *set,
                        const int numbers[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(signals->ignored & bit (numbers[i]))
            && !sigismember (&signals->before, numbers[i]))
            sigaddset (set, numbers[i]);
}

bool signals_take (struct signals *signals)
{
    sigset_t ours, blocked;

    sigprocmask (SIG_SETMASK, NULL, &signals->before);
    sigemptyset (&ours);
    add_wanted (signals, &ours, ENDING, COUNT (ENDING));
    add_wanted (signals, &ours, PASSED, COUNT (PASSED));
    sigaddset (&ours, SIGCHLD);
    if ((signals->fd = signalfd (-1, &ours, SFD_NONBLOCK | SFD_CLOEXEC)) < 0)
        return false;
    /* With an ignored SIGCHLD the kernel would reap our children. */
    signal (SIGCHLD, SIG_DFL);
    blocked = ours;
    sigaddset (&blocked, SIGPIPE);      /* the write says so */
    sigaddset (&blocked, SIGXFSZ);
    sigprocmask (SIG_BLOCK, &blocked, NULL);
    return true;
}

/* One that has come is not to come again when it is unblocked. */
static void forget (int signo)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN }, before;

    sigaction (signo, &ignore, &before);
    sigaction (signo, &before, NULL);
}

void signals_give_back (struct signals *signals)
{
    forget (SIGPIPE);
    forget (SIGXFSZ);
    if (signals->ignored & bit (SIGCHLD))
        signal (SIGCHLD, SIG_IGN);
    sigprocmask (SIG_SETMASK, &signals->before, NULL);
    /* One that was told to the server before it took no launch on. */
    if (signals->last_end != 0)
        signals_die (signals->last_end);
}

/* Whether it is one more press. */
static bool press (struct signals *signals, int signo, int64_t now)
{
    signals->last_end = signo;
    if (signals->presses > 0
        && now < signals->pressed_at + signals->press_ms)
        return false;
    signals->pressed_at = now;
    if (++signals->presses == LAST_PRESS)
        signals->leave_at = now + LEAVE_MS;
    return true;
}

struct signals_seen signals_read (struct signals *signals, struct outbox *box,
                                  int64_t now)
{
    struct signals_seen seen = { 0 };
    struct signalfd_siginfo records[8];
    ssize_t n;
    int signo;

    while ((n = read (signals->fd, records, sizeof (records))) > 0)
        for (size_t i = 0; i < (size_t) n / sizeof (records[0]); i++) {
            signo = (int) records[i].ssi_signo;
            if (signo == SIGCHLD) {
                seen.has_child_ended = true;
                continue;
            }
            seen.has_continued |= signo == SIGCONT;
            seen.shall_stop |= signo == SIGTSTP;
            if (is_ending (signo))
                seen.has_pressed |= press (signals, signo, now);
            outbox_add (box, CLIENT_SIGNAL, (uint32_t) signo);
        }
    return seen;
}

void signals_stop_self (void)
{
    static const struct timespec at_once;
    struct sigaction stop = { .sa_handler = SIG_DFL }, before;
    sigset_t set, mask;

    sigaction (SIGTSTP, &stop, &before);
    kill (getpid (), SIGTSTP);
    sigemptyset (&set);
    sigaddset (&set, SIGTSTP);
    sigprocmask (SIG_UNBLOCK, &set, &mask);     /* stops here */
    sigprocmask (SIG_SETMASK, &mask, NULL);
    sigaction (SIGTSTP, &before, NULL);
    /* The caller says that we were continued. */
    sigemptyset (&set);
    sigaddset (&set, SIGCONT);
    if (sigismember (&mask, SIGCONT))
        sigtimedwait (&set, NULL, &at_once);
}

_Noreturn void signals_die (int signo)
{
    struct sigaction action = { .sa_handler = SIG_DFL };
    sigset_t set;

    if (signo == SIGQUIT)
        prctl (PR_SET_DUMPABLE, 0, 0, 0, 0);    /* no core */
    sigaction (signo, &action, NULL);
    kill (getpid (), signo);
    sigemptyset (&set);
    sigaddset (&set, signo);
    sigprocmask (SIG_UNBLOCK, &set, NULL);
    _exit (SIGNAL_BASE + signo);        /* it does not kill process 1 */
}
