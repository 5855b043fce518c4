/* yod-script - starts the script of a batch job, then becomes the job's broker.
 *
 *     yod-script BROKER [ARGUMENT]...
 *     yod-script - COMMAND [ARGUMENT]...
 *
 * The broker is a Python program, whose start takes longer than many scripts
 * run. So the script is started first, as a child of the process that then
 * executes BROKER, or COMMAND of ours by an interpreter that it looks for (see
 * python.h), with one of these behind its arguments:
 *
 *     began UNIX_PID ERRNO LISTENER OUTPUT KEY_FILE GO
 *     failed TEXT
 *
 * A script finds its allocation by two variables. The listener that
 * YOD_PARTITION names is open, and the key file that YOD_KEY_FILE names is
 * there, before the script begins; whoever connects early is answered when the
 * broker accepts. ERRNO is not 0 where the script could not be executed.
 *
 * A script that is held waits for a word of the broker's at the descriptor GO,
 * which is 0 where it is not: `g`, or `r` and the directory that it is brought
 * back from. It ends if the broker does. Where it cannot be executed it says so in
 * its output, and ends as a shell would.
 *
 * One that CRIU may write down runs in a container, by yod-init. What its broker
 * listens at changes when it is brought back, so its environment has neither of
 * the two variables from here, but the name of a file (partition/batch/saved.py).
 *
 * This process, the script and the broker are the job's owner. See task.h for
 * what comes on standard input; what is behind it is the broker's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "python.h"
#include "task.h"

#define BACKLOG 4096
#define BY_PYTHON "-"
#define PARTITION "YOD_PARTITION="
#define KEY_FILE "YOD_KEY_FILE="
#define AGAIN "YOD_RESTART_COUNT="
#define MARK ".yod-mark"
#define RESTART_VARIABLE "YOD_RESTART_DIR"

struct started {
    char failure[PATH_MAX + 256];       /* empty: none */
    char partition[sizeof (PARTITION) + INET_ADDRSTRLEN + 6];
    char key_file[sizeof (KEY_FILE) + PATH_MAX];
    int listener;
    int output;
    int go;                             /* the script waits here; 0: not */
    pid_t script;
    int error;                          /* of its exec */
};

static bool fail (struct started *started, const char *what)
{
    snprintf (started->failure, sizeof (started->failure), "%s: %s", what,
              strerror (errno));
    return false;
}

static bool write_all (int fd, const char *from, size_t n)
{
    while (n > 0) {
        ssize_t put = write (fd, from, n);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        from += put;
        n -= (size_t) put;
    }
    return true;
}

/* ---- how the script finds its allocation ---- */

static bool open_listener (const struct task *task, struct started *started)
{
    struct sockaddr_in in = { .sin_family = AF_INET };
    socklen_t size = sizeof (in);
    int fd = socket (AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    if (fd < 0 || inet_pton (AF_INET, task->host, &in.sin_addr) != 1
        || bind (fd, (struct sockaddr *) &in, sizeof (in)) != 0
        || listen (fd, BACKLOG) != 0
        || getsockname (fd, (struct sockaddr *) &in, &size) != 0)
        return fail (started, task->host);
    started->listener = fd;
    snprintf (started->partition, sizeof (started->partition),
              PARTITION "%s:%u", task->host, ntohs (in.sin_port));
    return true;
}

/* Make the directories of the key below the first, which exists. */
static bool make_directories (const struct task *task,
                              struct started *started)
{
    for (char **each = task->directories + 1; *each; each++)
        if (mkdir (*each, 0700) != 0 && errno != EEXIST)
            return fail (started, *each);
    return true;
}

/* The process id at the end of the name says whose it is: one that is there
 * is of a process that has ended. */
static bool write_key (const struct task *task, struct started *started)
{
    char *path = started->key_file + sizeof (KEY_FILE) - 1;
    int fd, flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    char **last = task->directories;
    bool is_written;

    while (last[1])
        last++;
    snprintf (started->key_file, sizeof (started->key_file),
              KEY_FILE "%s/%s%d", *last, task->key_name, (int) getpid ());
    fd = open (path, flags, 0600);
    if (fd < 0 && errno == EEXIST && unlink (path) == 0)
        fd = open (path, flags, 0600);
    is_written = fd >= 0 && write_all (fd, task->key, strlen (task->key));
    if (!is_written)
        fail (started, path);
    if (fd >= 0)
        close (fd);
    return is_written;
}

/* ---- the script ---- */

/* A job that runs again, and of which a step goes on from a checkpoint, keeps its
 * output: the step cuts it back (partition/checkpoint/behind.py). The output of a
 * script that may itself go on is its broker's to cut. */
static bool is_kept (const struct task *task)
{
    const char *slash = strrchr (task->output, '/');
    const char *name = slash ? slash + 1 : task->output;
    char path[PATH_MAX];
    bool is_again = false;

    for (char **each = task->variables; *each; each++)
        is_again |= strncmp (*each, AGAIN, strlen (AGAIN)) == 0;
    if (snprintf (path, sizeof (path), "%.*s.%s" MARK,
                  (int) (name - task->output), task->output, name)
        >= (int) sizeof (path))
        return false;
    if (!is_again)
        unlink (path);                  /* of another job */
    return is_again && (task->n_container || access (path, F_OK) == 0);
}

static bool open_output (const struct task *task, struct started *started)
{
    int how = O_WRONLY | O_CREAT | O_APPEND;

    umask ((mode_t) task->umask);
    if (chdir (task->directory) != 0)
        return fail (started, task->directory);
    started->output = open (task->output, is_kept (task) ? how : how | O_TRUNC, 0666);
    return started->output >= 0 || fail (started, task->output);
}

/* In a container: yod-init CRIU HOW SCRIPT ARGUMENT... */
static void execute_within (const struct task *task, char *script)
{
    char **words = calloc ((size_t) task->n_arguments + 5, sizeof (*words));

    if (!words)
        return;
    words[0] = task->container[0];
    words[1] = task->container[1];
    words[2] = getenv (RESTART_VARIABLE) ? "restore-script" : "start-script";
    words[3] = script;
    memcpy (words + 4, task->arguments, task->n_arguments * sizeof (*words));
    execve (words[0], words, environ);
}

/* The interpreter opens the script by its path, so that its descriptor stays
 * open in all that it starts. The user's file may have changed, or be gone. */
static void execute (const struct task *task)
{
    char path[32];
    int fd = memfd_create ("yod-script", 0);

    if (fd < 0 || !write_all (fd, task->script, task->script_bytes))
        return;
    snprintf (path, sizeof (path), "/proc/self/fd/%d", fd);
    if (task->n_container)
        execute_within (task, path);
    else
        execve (path, task->arguments, task->variables);
}

static void be_script (const struct task *task, const struct started *started)
{
    int nothing = open ("/dev/null", O_RDONLY);

    setpgid (0, 0);
    if (nothing >= 0 && dup2 (nothing, 0) == 0
        && dup2 (started->output, 1) == 1 && dup2 (started->output, 2) == 2) {
        close (nothing);
        close (started->output);
        close (started->listener);
        execute (task);
    }
}

/* Read one value. Returns false at the end of what is written. */
static bool read_value (int fd, void *value, size_t size)
{
    ssize_t got;

    while ((got = read (fd, value, size)) < 0 && errno == EINTR)
        ;
    return got == (ssize_t) size;
}

/* Start the script, and wait until it has been executed. */
static bool start_script (const struct task *task, struct started *started)
{
    int report[2];

    if (pipe2 (report, O_CLOEXEC) != 0)
        return fail (started, "a pipe");
    started->script = fork ();
    if (started->script == 0) {
        be_script (task, started);
        write_all (report[1], (const char *) &errno, sizeof (errno));
        _exit (127);
    }
    close (report[1]);
    if (started->script < 0)
        return fail (started, "fork");
    setpgid (started->script, started->script);
    read_value (report[0], &started->error, sizeof (started->error));
    close (report[0]);
    if (started->error)
        waitpid (started->script, NULL, 0);
    return true;
}

/* Wait for the broker's word. False: it has gone without one. */
static bool hear (int go, const struct task *task)
{
    static char word[PATH_MAX + 1];
    size_t n = 0;
    ssize_t got;

    while ((got = read (go, word + n, sizeof (word) - 1 - n)) > 0
           || (got < 0 && errno == EINTR))
        n += got > 0 ? (size_t) got : 0;
    environ = task->variables;
    if (word[0] == 'r')
        setenv (RESTART_VARIABLE, word + 1, 1);
    else if (task->n_container)
        unsetenv (RESTART_VARIABLE);    /* of another job, in which it was handed in */
    return n > 0;
}

/* Start a process that becomes the script when it is told to. */
static bool hold_script (const struct task *task, struct started *started)
{
    int go[2];

    if (pipe2 (go, 0) != 0)
        return fail (started, "a pipe");
    started->script = fork ();
    if (started->script == 0) {
        int error;

        close (go[1]);
        setpgid (0, 0);
        if (!hear (go[0], task))
            _exit (125);
        close (go[0]);
        be_script (task, started);
        error = errno;
        fprintf (stderr, "yod-script: %s: %s\n", task->arguments[0],
                 strerror (error));
        _exit (error == ENOENT ? 127 : 126);
    }
    close (go[0]);
    started->go = go[1];
    if (started->script < 0)
        return fail (started, "fork");
    setpgid (started->script, started->script);
    return true;
}

static void start (struct task *task, struct started *started)
{
    if (!open_output (task, started) || !open_listener (task, started)
        || !make_directories (task, started) || !write_key (task, started))
        return;
    if (!task->n_container) {
        task->variables[task->n_variables] = started->partition;
        task->variables[task->n_variables + 1] = started->key_file;
    }
    if (task->is_held)
        hold_script (task, started);
    else
        start_script (task, started);
}

/* ---- the broker ---- */

static char *number (long value)
{
    char text[24];

    snprintf (text, sizeof (text), "%ld", value);
    return strdup (text);
}

static void become_broker (char **words, int count, struct started *started)
{
    char **all = calloc ((size_t) count + 8, sizeof (*all));
    int n = count;

    if (!all)
        return;
    memcpy (all, words, (size_t) count * sizeof (*all));
    if (*started->failure) {
        all[n++] = "failed";
        all[n++] = started->failure;
    } else {
        all[n++] = "began";
        all[n++] = number (started->script);
        all[n++] = number (started->error);
        all[n++] = number (started->listener);
        all[n++] = number (started->output);
        all[n++] = started->key_file + sizeof (KEY_FILE) - 1;
        all[n++] = number (started->go);
    }
    if (strcmp (all[0], BY_PYTHON) == 0)
        python_execute (all + 1, n - 1);
    else
        execv (all[0], all);
}

int main (int argc, char **argv)
{
    struct task task;
    struct started started = { .listener = -1, .output = -1 };
    const char *problem;

    if (argc < 2 || (argc < 3 && strcmp (argv[1], BY_PYTHON) == 0)) {
        fputs ("yod-script: a pct starts it with the words of a broker\n",
               stderr);
        return 2;
    }
    if ((problem = task_read (0, &task))) {
        fprintf (stderr, "yod-script: %s\n", problem);
        return 1;
    }
    start (&task, &started);
    become_broker (argv + 1, argc - 1, &started);
    fprintf (stderr, "yod-script: %s: %s\n",
             strcmp (argv[1], BY_PYTHON) == 0 ? "python3" : argv[1],
             strerror (errno));
    return 127;
}
