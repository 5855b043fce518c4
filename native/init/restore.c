#include "restore.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc.h"
#include "userns.h"

#define LOG "restore.log"
#define WORD_BYTES 96
#define LOCK "/run/yod-init.restore"
#define LOCK_OF_USERS "/dev/shm"
#define GHOSTS "/dev/shm/*.cr.*.ghost"
#define GHOST_IMAGE "ghost-file-"
#define TURN_S 60

int restore_open (const char *directory, char *path, char *trouble, size_t trouble_bytes)
{
    int fd = open (directory, O_RDONLY | O_DIRECTORY);
    struct stat about;

    if (fd < 0 || fstat (fd, &about) != 0) {
        snprintf (trouble, trouble_bytes, "%.300s: %s", directory, strerror (errno));
        return -1;
    }
    if (about.st_uid != geteuid () || (about.st_mode & (S_IWGRP | S_IWOTH))) {
        snprintf (trouble, trouble_bytes, "%.300s: user %u wrote it, or others may: criu brings"
                  " back what user %u alone has written", directory, about.st_uid, geteuid ());
        return -1;
    }
    snprintf (path, RESTORE_PATH_BYTES, "/proc/self/fd/%d", fd);
    return 0;
}

static void has_waited (int signo)
{
    (void) signo;
}

/* Whether there are files that had no name any more; also if that cannot be seen. */
static bool has_ghosts (const char *directory)
{
    DIR *images = opendir (directory);
    struct dirent *entry;
    bool has_some = !images;

    while (!has_some && (entry = readdir (images)))
        has_some = strncmp (entry->d_name, GHOST_IMAGE, sizeof (GHOST_IMAGE) - 1) == 0;
    if (images)
        closedir (images);
    return has_some;
}

/* One restore of such files on a host at a time: criu makes them under names like
 * /dev/shm/NAME.cr.1.ghost, the same for each job that had such a file. Those that are
 * there meanwhile are what a restore that was killed has left. criu holds the lock until
 * it ends; one that hangs holds up nobody for longer than TURN_S. */
static void take_turn (void)
{
    const struct sigaction wake = { .sa_handler = has_waited };
    int lock = userns_is_needed () ? open (LOCK_OF_USERS, O_RDONLY | O_DIRECTORY)
                                   : open (LOCK, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    sigset_t alarms;
    glob_t ghosts;

    if (lock < 0)
        return;
    sigemptyset (&alarms);
    sigaddset (&alarms, SIGALRM);
    sigaction (SIGALRM, &wake, NULL);
    sigprocmask (SIG_UNBLOCK, &alarms, NULL);
    alarm (TURN_S);
    if (flock (lock, LOCK_EX) == 0 && glob (GHOSTS, 0, NULL, &ghosts) == 0) {
        for (size_t i = 0; i < ghosts.gl_pathc; i++)
            unlink (ghosts.gl_pathv[i]);
        globfree (&ghosts);
    }
    alarm (0);
}

static _Noreturn void be_criu (const char *criu, const char *directory,
                               bool has_connections, const sigset_t *before,
                               const struct pipe_again *pipes, size_t n_pipes)
{
    static const char *const options[] = {
        "--log-file", LOG, "-v1", "--restore-detached", "--restore-sibling",
        "--manage-cgroups=ignore", "--file-locks", "--link-remap",
        "--tcp-established", "--network-lock", "skip"
    };
    const size_t n_options = sizeof (options) / sizeof (options[0])
                             - (has_connections ? 0 : 3);
    const char **words = calloc (5 + n_options + 2 * n_pipes + 1, sizeof (*words));
    char *names = calloc (n_pipes + 1, WORD_BYTES);
    size_t n = 0;

    if (!words || !names)
        _exit (127);
    words[n++] = criu;
    words[n++] = "restore";
    words[n++] = "--images-dir";
    words[n++] = directory;
    if (userns_is_needed ())
        words[n++] = "--unprivileged";
    for (size_t i = 0; i < n_options; i++)
        words[n++] = options[i];
    for (size_t i = 0; i < n_pipes; i++) {
        char *name = names + i * WORD_BYTES;

        fcntl (pipes[i].fd, F_SETFD, 0);
        snprintf (name, WORD_BYTES, "fd[%d]:%s", pipes[i].fd, pipes[i].name);
        words[n++] = "--inherit-fd";
        words[n++] = name;
    }
    if (has_ghosts (directory))
        take_turn ();
    sigprocmask (SIG_SETMASK, before, NULL);
    userns_keep_capabilities ();
    execv (criu, (char **) words);
    _exit (127);
}

static int is_last (pid_t child, void *with)
{
    *(pid_t *) with = child;
    return 0;
}

static void tell_why (const char *directory, char *trouble, size_t bytes)
{
    char path[PATH_MAX], line[1024], last[1024] = "no reason is in the log\n";
    FILE *file;

    snprintf (path, sizeof (path), "%s/" LOG, directory);
    if ((file = fopen (path, "re"))) {
        while (fgets (line, sizeof (line), file)) {
            const char *error = strstr (line, "Error");

            if (error && !strstr (error, "Can't setup RLIMIT_NOFILE")
                && !strstr (error, "Restoring FAILED"))
                snprintf (last, sizeof (last), "%s", error);
        }
        fclose (file);
    }
    last[strcspn (last, "\n")] = '\0';
    snprintf (trouble, bytes, "criu cannot bring it back from %s: %s",
              directory, last);
}

pid_t restore (const char *criu, const char *directory, const char *path, bool has_connections,
               const sigset_t *before,
               const struct pipe_again *pipes, size_t n_pipes,
               char *trouble, size_t trouble_bytes)
{
    pid_t init = -1, child = fork ();
    int status;

    if (child == 0)
        be_criu (criu, path, has_connections, before, pipes, n_pipes);
    while (child > 0 && waitpid (child, &status, 0) < 0 && errno == EINTR)
        ;
    if (child > 0 && WIFEXITED (status) && WEXITSTATUS (status) == 0) {
        proc_children (getpid (), is_last, &init);
        if (init > 0)
            return init;
    }
    tell_why (directory, trouble, trouble_bytes);
    return -1;
}
