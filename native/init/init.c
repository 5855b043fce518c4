/* yod-init - runs a rank so that CRIU can write it down, and brings it back.
 *
 *     yod-init CRIU start PROGRAM [ARGUMENT]...        argument 0 first
 *     yod-init CRIU restore PROGRAM [ARGUMENT]...
 *     yod-init CRIU start-tree, restore-tree           every signal to the group
 *     yod-init CRIU start-script, restore-script /proc/self/fd/N [ARGUMENT]...
 *     yod-init CRIU 'start pmix COMMAND' PROGRAM [ARGUMENT]...
 *     yod-init CRIU 'restore pmix' PROGRAM [ARGUMENT]...
 *     yod-init                                         run by CRIU, see shared.h
 *     yod-init enter PID PROGRAM [ARGUMENT]...         see userns.h
 *     yod-init try PROGRAM [ARGUMENT]...               likewise
 *
 * `start` runs PROGRAM in a PID and an IPC namespace (house.h): the ids that it
 * knows are free wherever it is brought back. Where its environment leads to a
 * server of PMI, the rank is one of a world: those of the node share the
 * namespaces. So they do with `pmix`, where COMMAND starts a PMIx server that is one
 * of the tree. `restore` has CRIU bring it back from the directory
 * YOD_RESTART_DIR; a rank that has none there had ended.
 *
 * Either way this process stays outside, as what the keeper knows as the rank: it
 * passes signals on, talks to the server of PMI for it (relay.h), and ends as the
 * program does. CRIU can neither write down nor bring back pipes whose other ends
 * are elsewhere. The file `streams` says which they were; the new ones take their
 * place. The file `tree` says where the images are, how many ranks were written
 * down together, and the program's number in its namespace.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../keeper/spread.h"
#include "affinity.h"
#include "fds.h"
#include "house.h"
#include "inside.h"
#include "pmi.h"
#include "proc.h"
#include "shared.h"
#include "userns.h"

#define FIRST_OF_PROGRAM 3
#define WORDS_LEAST 5
#define WITH_PMIX " pmix"
#define TREE_VARIABLE "YOD_TREE"        /* process 1 of what CRIU writes down */
#define HELD_VARIABLE "YOD_HELD"        /* partition/checkpoint/holding.py */
#define SAVED "saved"

static int fail (const char *what)
{
    fprintf (stderr, "yod-init: %s: %s\n", what, strerror (errno));
    return -1;
}

static int number_of (const char *variable, int otherwise)
{
    const char *text = getenv (variable);

    return text ? atoi (text) : otherwise;
}

/* --- the program ------------------------------------------------------------------ */

static int open_namespace (pid_t init, const char *kind)
{
    char path[64];

    snprintf (path, sizeof (path), "/proc/%d/ns/%s", (int) init, kind);
    return open (path, O_RDONLY | O_CLOEXEC);
}

/* A process whose parent ends becomes the child of process 1 of its namespace: so
 * does the parent of the program, which is then in the tree that CRIU takes. */
static _Noreturn void be_between (pid_t init, int ipc, const struct inside *inside)
{
    const int kept[] = {
        inside->told, inside->pmi_in, inside->pmi_out, inside->script
    };
    pid_t parent;

    if (((house_namespaces () & CLONE_NEWIPC) && setns (ipc, CLONE_NEWIPC) != 0)
        || userns_join_mounts (init) != 0
        || (parent = fork ()) < 0)
        _exit (EXIT_NEVER_STARTED);
    if (parent > 0)
        _exit (0);
    fds_close_others (kept, 4);
    start_parent (inside);
}

/* The number of a process that is no more: the kernel goes round all others before
 * it gives it to another one. */
static pid_t free_number (void)
{
    pid_t child = fork ();

    if (child == 0)
        _exit (0);
    if (child > 0)
        waitpid (child, NULL, 0);
    return child;
}

/* The descriptor that a script is executed by, which its interpreter opens again by
 * that name; -1: the program has another name. */
static int script_of (const char *path)
{
    int fd = -1;

    return sscanf (path, "/proc/self/fd/%d", &fd) == 1 ? fd : -1;
}

/* script: see inside.h. Returns the program's number on the host, or -1 */
static pid_t start (pid_t init, char **words, const sigset_t *before, const int *theirs,
                    int script)
{
    int joined = userns_join (init);
    int pids = open_namespace (init, "pid"), ipc = open_namespace (init, "ipc");
    int pair[2], fds[POST_FDS];
    struct post post;
    struct post_from from;
    pid_t between, number = free_number ();

    if (joined != 0 || pids < 0 || ipc < 0 || setns (pids, CLONE_NEWPID) != 0)
        return fail ("cannot enter the namespaces");
    if (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0
        || post_ask_who (pair[0]) != 0)
        return fail ("socketpair");
    if ((between = fork ()) == 0)
        be_between (init, ipc, &(struct inside) {
            words, before, number, pair[1], theirs[0], theirs[1], script
        });
    close (pair[1]);
    close (pids);
    close (ipc);
    if (between < 0)
        return fail ("fork");
    waitpid (between, NULL, 0);
    if (post_receive (pair[0], &post, &from, fds) < 0)
        return fail ("the program was not started");
    close (pair[0]);
    return from.pid;
}

/* --- its life ----------------------------------------------------------------------- */

/* End as the program did, which its parent leaves unreaped. */
static int end_like (pid_t program)
{
    struct rlimit no_core = { 0, 0 };
    long long status = proc_field (program, STAT_END);
    int signo = SIGKILL;                /* it is gone with its namespace */

    if (status >= 0 && WIFEXITED ((int) status))
        return WEXITSTATUS ((int) status);
    if (status >= 0)
        signo = WTERMSIG ((int) status);
    setrlimit (RLIMIT_CORE, &no_core);  /* the program has left one, if any */
    signal (signo, SIG_DFL);
    raise (signo);
    return 128 + signo;                 /* of a signal that ends nobody */
}

/* To the program, or to its group, as keeper/spread.h and `is_tree` say. */
static void pass_on (int signals, pid_t program, bool is_tree)
{
    struct signalfd_siginfo about;

    if (read (signals, &about, sizeof (about)) != sizeof (about)
        || about.ssi_signo == SIGCHLD)
        return;
    if ((!is_tree && !spread_is_to_group ((int) about.ssi_signo))
        || kill (-program, (int) about.ssi_signo) != 0)
        kill (program, (int) about.ssi_signo);
}

/* All signals but those of faults are blocked here, and wait. */
static int serve (pid_t program, const sigset_t *heard, bool is_tree)
{
    int signals = signalfd (-1, heard, SFD_CLOEXEC);

    for (;;) {
        struct pollfd fds[2 + PMI_POLLED] = {
            { .fd = signals, .events = POLLIN },
            { .fd = FD_PROGRAM, .events = POLLIN },
        };

        pmi_poll (fds + 2);
        if (poll (fds, 2 + PMI_POLLED, -1) < 0)
            continue;
        if (fds[0].revents)
            pass_on (signals, program, is_tree);
        pmi_carry (fds + 2);
        if (fds[1].revents) {
            sigprocmask (SIG_UNBLOCK, heard, NULL);
            return end_like (program);
        }
    }
}

/* Put the descriptors where the saver looks. */
static int show (pid_t init, pid_t program)
{
    int fds[2] = {
        (int) syscall (SYS_pidfd_open, init, 0),
        (int) syscall (SYS_pidfd_open, program, 0),
    };

    if (fds[0] < 0 || fds_put (fds[0], FD_INIT) != 0
        || fds[1] < 0 || fds_put (fds[1], FD_PROGRAM) != 0)
        return fail ("pidfd_open");
    return 0;
}

/* Fill in what the file `tree` says. 0, or -1 after a line */
static int read_tree (const char *directory, struct house_order *order)
{
    static char images[PATH_MAX], checkpoint[PATH_MAX], path[PATH_MAX];
    char name[64];
    FILE *file;
    int n = 0;

    snprintf (checkpoint, sizeof (checkpoint), "%s/..", directory);
    snprintf (path, sizeof (path), "%s/tree", directory);
    if (!(file = fopen (path, "re")))
        return fail (path);
    n = fscanf (file, "%63s %d", name, &order->count);
    fclose (file);
    if (n != 2 || order->count < 1) {
        errno = EINVAL;
        return fail (path);
    }
    snprintf (images, sizeof (images), "%s/../%s", directory, name);
    order->images = images;
    order->checkpoint = checkpoint;
    return 0;
}

/* Say that all stands still and is written, and wait until it may go on. */
static int wait_held (const char *images, const char *name)
{
    int directory = open (images, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int held = openat (directory, name, O_RDONLY | O_CLOEXEC);
    int saved = openat (directory, SAVED, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    if (held < 0 || saved < 0)
        return 1;
    while (flock (held, LOCK_SH) != 0 && errno == EINTR)
        ;
    return 0;
}

/* CRIU runs us several times: once when all processes are written down, and do not
 * yet go on. */
static int keep_shared (void)
{
    const char *images = getenv ("CRTOOLS_IMAGE_DIR");

    if (strcmp (getenv ("CRTOOLS_SCRIPT_ACTION"), "post-dump") != 0)
        return 0;
    if (!images || (getenv (TREE_VARIABLE)
                    && shared_keep (number_of (TREE_VARIABLE, 0), images) != 0))
        return 1;
    return getenv (HELD_VARIABLE) ? wait_held (images, getenv (HELD_VARIABLE)) : 0;
}

/* Those of MPI libraries that need no address of a host and no directory, if the
 * user has not. */
static void choose_transports (void)
{
    setenv ("UCX_TLS", "self,sysv,cma", 0);
    setenv ("OMPI_MCA_pml", "ob1", 0);
    setenv ("OMPI_MCA_btl", "^tcp,ofi,uct,openib,usnic", 0);
    setenv ("OMPI_MCA_mtl", "^ofi,psm,psm2", 0);
    setenv ("OMPI_MCA_osc", "^ucx", 0);
    setenv ("OMPI_MCA_orte_create_session_dirs", "0", 0);
}

/* The first word of a text is this one. */
static bool has_word (const char *text, const char *word)
{
    size_t n = strcspn (text, " ");

    return strlen (word) == n && strncmp (text, word, n) == 0;
}

int main (int count, char **words)
{
    struct house_order order = { .images = "", .count = 1 };
    const char *directory = getenv ("YOD_RESTART_DIR");
    int given[POST_FDS] = { 0, 1, 2, -1, -1 }, *theirs = given + 3, house;
    sigset_t heard, before;
    pid_t init, program = -1;
    bool is_restore, is_script, is_of_world;

    if (count == 1 && getenv ("CRTOOLS_SCRIPT_ACTION"))
        return keep_shared ();
    if (count == 2 && strcmp (words[1], BE_INIT) == 0)
        be_init ();
    if (count > 2 && strcmp (words[1], BE_PARENT) == 0)
        be_parent_by_words (count - 2, words + 2);
    if (count > 3 && strcmp (words[1], "enter") == 0)
        return userns_enter (atoi (words[2]), words + 3);
    if (count > 2 && strcmp (words[1], "try") == 0)
        return userns_try (words + 2);
    if (count < WORDS_LEAST) {
        fprintf (stderr, "usage: yod-init CRIU start|restore PROGRAM ARGUMENT...\n");
        return EXIT_NEVER_STARTED;
    }
    is_restore = strncmp (words[2], "restore", strlen ("restore")) == 0;
    is_script = has_word (words[2], "start-script") || has_word (words[2], "restore-script");
    order.has_server = strstr (words[2], WITH_PMIX) != NULL;
    if (order.has_server && !is_restore)
        order.server = strstr (words[2], WITH_PMIX) + strlen (WITH_PMIX);
    if (is_restore && (!directory || access (directory, F_OK) != 0))
        return 0;
    sigfillset (&heard);
    for (const int *fault = faults; *fault; fault++)
        sigdelset (&heard, *fault);
    signal (SIGCHLD, SIG_DFL);
    sigprocmask (SIG_BLOCK, &heard, &before);
    order.criu = words[1];
    order.before = &before;
    is_of_world = !is_script && pmi_is_offered ();
    if (is_of_world || order.has_server)
        order.count = number_of ("YOD_LOCAL_SIZE", 1);
    if (is_restore && read_tree (directory, &order) != 0)
        return EXIT_NEVER_STARTED;
    order.is_shared = is_of_world || order.has_server || order.count > 1;
    if ((house = house_find (&order)) < 0)
        return EXIT_NEVER_STARTED;
    if (is_of_world && pmi_open (FD_DOWN, FD_UP, theirs) != 0) {
        fail ("pipes");
        return EXIT_NEVER_STARTED;
    }
    if (order.is_shared)
        choose_transports ();
    if (is_restore && is_of_world)
        pmi_is_another ();
    init = house_enter (house, is_script ? 0 : number_of ("YOD_RANK", 0),
                        is_restore ? given : NULL, &program);
    if (init > 0 && !is_restore)
        program = start (init, words + FIRST_OF_PROGRAM, &before, theirs,
                         is_script ? script_of (words[FIRST_OF_PROGRAM]) : -1);
    if (init < 0 || program < 0 || show (init, program) != 0
        || house_tell (house, program) != 0)
        return EXIT_NEVER_STARTED;
    if (is_of_world) {
        close (theirs[0]);
        close (theirs[1]);
    }
    if (is_restore)
        affinity_give (program);
    return serve (program, &heard, has_word (words[2], "start-tree")
                                   || has_word (words[2], "restore-tree"));
}
