/* yod-init - runs a rank so that CRIU can write it down, and brings it back.
 *
 *     yod-init CRIU start PROGRAM [ARGUMENT]...        argument 0 first
 *     yod-init CRIU restore PROGRAM [ARGUMENT]...
 *
 * `start` makes a PID and an IPC namespace. Process 1 there is an init (see
 * inside.h), and PROGRAM is its child: the ids that they know are free wherever
 * they are brought back. `restore` has CRIU bring the init and all below it back
 * from the directory YOD_RESTART_DIR; a rank that has none there had ended.
 *
 * Either way this process stays outside, as what the keeper knows as the rank:
 * it passes signals on, and ends as the program does. CRIU can neither write down
 * nor bring back pipes whose other ends are elsewhere. The file `streams` says
 * which they were; the new ones take their place.
 */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inside.h"
#include "restore.h"

#define FIRST_OF_PROGRAM 3

static int fail (const char *what)
{
    fprintf (stderr, "yod-init: %s: %s\n", what, strerror (errno));
    return EXIT_NEVER_STARTED;
}

/* End as the program did. Its init cannot die of a signal, as the kernel keeps
 * signals from it, so its name says of which the program did. */
static int end_like (pid_t init)
{
    char path[64], name[sizeof (BY_SIGNAL) + 16] = "";
    struct rlimit no_core = { 0, 0 };
    int status, signo = 0;
    FILE *file;

    snprintf (path, sizeof (path), "/proc/%d/comm", (int) init);
    if ((file = fopen (path, "r"))) {
        if (fgets (name, sizeof (name), file)
            && strncmp (name, BY_SIGNAL, strlen (BY_SIGNAL)) == 0)
            signo = atoi (name + strlen (BY_SIGNAL));
        fclose (file);
    }
    while (waitpid (init, &status, 0) < 0)
        if (errno != EINTR)
            return fail ("waitpid");
    if (WIFEXITED (status) && signo == 0)
        return WEXITSTATUS (status);
    if (WIFSIGNALED (status))
        signo = WTERMSIG (status);
    setrlimit (RLIMIT_CORE, &no_core);  /* the program has left one, if any */
    signal (signo, SIG_DFL);
    raise (signo);
    return 128 + signo;                 /* of a signal that ends nobody */
}

/* All signals but those of faults are blocked here, and wait. */
static int serve (pid_t init, const sigset_t *heard)
{
    for (;;) {
        siginfo_t about = { 0 };
        int signo = sigwaitinfo (heard, &about);

        if (signo == SIGCHLD) {
            about.si_pid = 0;
            if (waitid (P_PID, (id_t) init, &about,
                        WEXITED | WNOHANG | WNOWAIT) == 0
                && about.si_pid == init) {
                int status;

                sigprocmask (SIG_UNBLOCK, heard, NULL);
                status = end_like (init);
                return status;
            }
        } else if (signo > 0) {
            kill (init, signo);
        }
    }
}

static pid_t start (char **words, const sigset_t *before, const sigset_t *heard)
{
    pid_t init;

    if (unshare (CLONE_NEWPID | CLONE_NEWIPC) != 0) {
        fail ("cannot make a PID namespace, which root can");
        return -1;
    }
    init = fork ();
    if (init == 0)
        be_init (words, before, heard);
    if (init < 0)
        fail ("fork");
    return init;
}

int main (int count, char **words)
{
    sigset_t heard, before;
    pid_t init;
    bool is_restore;

    if (count <= FIRST_OF_PROGRAM + 1) {
        fprintf (stderr, "usage: yod-init CRIU start|restore PROGRAM ARGUMENT...\n");
        return EXIT_NEVER_STARTED;
    }
    is_restore = strcmp (words[2], "restore") == 0;
    sigfillset (&heard);
    for (const int *fault = faults; *fault; fault++)
        sigdelset (&heard, *fault);
    signal (SIGCHLD, SIG_DFL);
    sigprocmask (SIG_BLOCK, &heard, &before);
    if (is_restore) {
        const char *directory = getenv ("YOD_RESTART_DIR");

        if (!directory || access (directory, F_OK) != 0)
            return 0;
        init = restore (words[1], directory, &before);
    } else {
        init = start (words + FIRST_OF_PROGRAM, &before, &heard);
    }
    return init < 0 ? EXIT_NEVER_STARTED : serve (init, &heard);
}
