/* inside.c - process 1 of a rank's namespace. */
#include "inside.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where CRIU makes a directory for a moment: in that of process 1. */
#define PLACE "/run"

const int faults[] = { SIGILL, SIGFPE, SIGBUS, SIGSEGV, SIGTRAP, SIGSYS, 0 };

static _Noreturn void be_program (char **words, const sigset_t *before)
{
    setpgid (0, 0);
    sigprocmask (SIG_SETMASK, before, NULL);
    execv (words[0], words + 1);
    fprintf (stderr, "yod-init: %s: %s\n", words[0], strerror (errno));
    _exit (EXIT_NEVER_STARTED);
}

/* The program has ended: so does everything in the namespace. */
static _Noreturn void end (int status)
{
    char name[sizeof (BY_SIGNAL) + 16];

    if (WIFEXITED (status))
        _exit (WEXITSTATUS (status));
    snprintf (name, sizeof (name), BY_SIGNAL "%d", WTERMSIG (status));
    prctl (PR_SET_NAME, name);
    _exit (128 + WTERMSIG (status));
}

_Noreturn void be_init (char **words, const sigset_t *before,
                        const sigset_t *heard)
{
    pid_t program, ended;

    prctl (PR_SET_PDEATHSIG, SIGKILL);
    setsid ();
    program = fork ();
    if (program == 0)
        be_program (words, before);
    if (program < 0)
        _exit (EXIT_NEVER_STARTED);
    setpgid (program, program);         /* whoever of the two is first */
    if (chdir (PLACE) != 0)
        fprintf (stderr, "yod-init: %s: %s\n", PLACE, strerror (errno));
    for (;;) {
        int status, signo = sigwaitinfo (heard, NULL);

        if (signo > 0 && signo != SIGCHLD)
            kill (-program, signo);
        while ((ended = waitpid (-1, &status, WNOHANG)) > 0)
            if (ended == program)
                end (status);
    }
}
