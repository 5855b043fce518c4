/* Handles SIGUSR1 with what main installs, says "ready", and pauses until it
 * comes; prints the signals that are ignored and the mask it was started with.
 */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t seen;

static void handler (int signo)
{
    seen = signo;
}

int main (void)
{
    sigset_t mask, block;
    struct sigaction action;

    sigemptyset (&block);
    sigaddset (&block, SIGUSR1);
    sigprocmask (SIG_BLOCK, &block, &mask);
    for (int signo = 1; signo < 32; signo++) {
        if (sigaction (signo, NULL, &action) == 0
            && action.sa_handler == SIG_IGN)
            printf ("ignored %d\n", signo);
        if (sigismember (&mask, signo))
            printf ("blocked %d\n", signo);
    }
    signal (SIGUSR1, handler);
    printf ("ready\n");
    fflush (stdout);
    while (!seen)
        sigsuspend (&mask);
    printf ("seen %d\n", (int) seen);
    return 0;
}
