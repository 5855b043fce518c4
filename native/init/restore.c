/* restore.c - has CRIU bring a rank back. */
#include "restore.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOG "restore.log"
#define N_STREAMS 3
#define MOST_WORDS (16 + 2 * N_STREAMS)
#define NAME_BYTES 64                   /* of a pipe, as /proc shows it */

/* Add the option for each line `FD NAME` of the file `streams`.
 * words: the place behind the last option. */
static void add_streams (const char *directory, const char **words,
                         char names[N_STREAMS][NAME_BYTES + 16])
{
    char path[PATH_MAX], name[NAME_BYTES];
    int fd, n = 0;
    FILE *file;

    snprintf (path, sizeof (path), "%s/streams", directory);
    if (!(file = fopen (path, "r")))
        return;
    while (n < N_STREAMS && fscanf (file, "%d %63s", &fd, name) == 2) {
        snprintf (names[n], sizeof (names[n]), "fd[%d]:%s", fd, name);
        *words++ = "--inherit-fd";
        *words++ = names[n++];
    }
    fclose (file);
    *words = NULL;
}

static _Noreturn void be_criu (const char *criu, const char *directory,
                               const sigset_t *before)
{
    char names[N_STREAMS][NAME_BYTES + 16];
    const char *words[MOST_WORDS + 1] = {
        criu, "restore", "--images-dir", directory, "--log-file", LOG, "-v1",
        "--restore-detached", "--restore-sibling", "--manage-cgroups=ignore",
        "--file-locks", "--link-remap", NULL
    };
    int n = 0;

    while (words[n])
        n++;
    add_streams (directory, words + n, names);
    sigprocmask (SIG_SETMASK, before, NULL);
    execv (criu, (char **) words);
    fprintf (stderr, "yod-init: %s: %s\n", criu, strerror (errno));
    _exit (127);
}

/* The last child of this process; -1: there is none. */
static pid_t find_child (void)
{
    char path[64];
    FILE *file;
    int child = -1;

    snprintf (path, sizeof (path), "/proc/self/task/%d/children", (int) getpid ());
    if (!(file = fopen (path, "r")))
        return -1;
    while (fscanf (file, "%d", &child) == 1)
        ;
    fclose (file);
    return child;
}

static void tell_why (const char *directory)
{
    char path[PATH_MAX], line[1024], last[1024] = "no reason is in the log\n";
    FILE *file;

    snprintf (path, sizeof (path), "%s/" LOG, directory);
    if ((file = fopen (path, "r"))) {
        while (fgets (line, sizeof (line), file)) {
            const char *error = strstr (line, "Error");

            if (error && !strstr (error, "Can't setup RLIMIT_NOFILE")
                && !strstr (error, "Restoring FAILED"))
                snprintf (last, sizeof (last), "%s", error);
        }
        fclose (file);
    }
    fprintf (stderr, "yod-init: criu cannot bring this rank back from %s: %s",
             directory, last);
}

pid_t restore (const char *criu, const char *directory, const sigset_t *before)
{
    pid_t init, child = fork ();
    int status;

    if (child == 0)
        be_criu (criu, directory, before);
    while (child > 0 && waitpid (child, &status, 0) < 0 && errno == EINTR)
        ;
    if (child > 0 && WIFEXITED (status) && WEXITSTATUS (status) == 0
        && (init = find_child ()) > 0)
        return init;
    tell_why (directory);
    return -1;
}
