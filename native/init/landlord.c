#include "landlord.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fds.h"
#include "inside.h"
#include "proc.h"
#include "restore.h"
#include "shared.h"
#include "userns.h"

#define PARENT_DIED SIGUSR1
#define N_OWN_FDS 3
#define TOLD_FD 3                       /* of a server, pct/pmix_server/own.py */
#define SAY_FD 4                        /* likewise */

struct guest {
    int32_t rank;
    struct post_from from;
    int process, program, parent;       /* pidfds; -1: not known, or gone */
    int fds[POST_FDS];
    int n_fds;
    pid_t inner, outer;                 /* of a program that has been brought back */
};

static struct {
    const struct house_order *order;
    int fd, signals;
    int told;                           /* by the server; -1: all, or there is none */
    int said;                           /* to the user: standard error of a rank */
    char environment[ENVIRONMENT_BYTES];
    size_t n_told;
    const char *path;
    pid_t keeper, init;
    char trouble[TROUBLE_BYTES];
    struct guest *guests;
    struct pollfd *polled;
    int n_guests, n_ended;
} l;

static _Noreturn void leave (void)
{
    if (l.init > 0)
        kill (l.init, SIGKILL);
    while (waitpid (-1, NULL, 0) > 0 || errno == EINTR)
        ;
    if (*l.path && l.n_guests < l.order->count)
        unlink (l.path);
    _exit (0);
}

static void begin (void)
{
    if (userns_make (l.trouble, sizeof (l.trouble)) != 0)
        return;
    if (unshare (house_namespaces ()) != 0) {
        snprintf (l.trouble, sizeof (l.trouble),
                  "cannot make a PID namespace: %s", strerror (errno));
        return;
    }
    l.init = fork ();
    if (l.init == 0) {
        fds_close_others (NULL, 0);
        start_init ();
    }
    if (l.init < 0)
        snprintf (l.trouble, sizeof (l.trouble), "fork: %s", strerror (errno));
}

static _Noreturn void be_server (int told)
{
    setsid ();
    dup2 (told, TOLD_FD);
    dup2 (l.said >= 0 ? l.said : STDERR_FILENO, SAY_FD);
    fds_close_others ((int[]) { TOLD_FD, SAY_FD }, 2);
    sigprocmask (SIG_SETMASK, l.order->before, NULL);
    execl ("/bin/sh", "sh", "-c", l.order->server, (char *) NULL);
    _exit (EXIT_NEVER_STARTED);
}

/* As a rank's parent it becomes a child of process 1. */
static void start_server (void)
{
    int told[2];
    pid_t between;

    if (pipe2 (told, O_CLOEXEC) != 0 || (between = fork ()) < 0) {
        snprintf (l.trouble, sizeof (l.trouble), "PMIx server: %s", strerror (errno));
        return;
    }
    if (between == 0) {
        if (fork () == 0)
            be_server (fcntl (told[1], F_DUPFD, FD_OTHERS));
        _exit (0);
    }
    close (told[1]);
    l.told = told[0];
    while (waitpid (between, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void answer (const struct guest *guest)
{
    struct post post = { .rank = guest->rank, .init = l.init, .program = guest->outer };

    memcpy (post.trouble, l.trouble, sizeof (post.trouble));
    memcpy (post.environment, l.environment, sizeof (post.environment));
    post_send (l.fd, &post, &guest->from, NULL, 0);
}

/* --- ranks that are brought back ---------------------------------------------- */

static FILE *open_of (const struct guest *guest, const char *name)
{
    char path[PATH_MAX];

    snprintf (path, sizeof (path), "%s/rank.%d/%s", l.order->checkpoint,
              (int) guest->rank, name);
    return fopen (path, "re");
}

static bool has_name (const struct pipe_again *pipes, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp (pipes[i].name, name) == 0)
            return true;
    return false;
}

static size_t add_pipes (const struct guest *guest, struct pipe_again *pipes, size_t n)
{
    char name[sizeof (pipes->name)];
    FILE *file = open_of (guest, "streams");
    int number;

    while (file && fscanf (file, "%d %63s", &number, name) == 2)
        if (number >= 0 && number < guest->n_fds && !has_name (pipes, n, name)
            && n < (size_t) l.n_guests * POST_FDS) {
            pipes[n].fd = guest->fds[number];
            memcpy (pipes[n++].name, name, sizeof (name));
        }
    if (file)
        fclose (file);
    return n;
}

static int is_program (pid_t child, void *with)
{
    struct guest *guest = with;

    if (proc_inner_pid (child) == guest->inner)
        guest->outer = child;
    return guest->outer;
}

static int has_program (pid_t parent, void *with)
{
    return proc_children (parent, is_program, with);
}

static void find_program (struct guest *guest)
{
    FILE *file = open_of (guest, "tree");
    int inner = -1;

    if (file && fscanf (file, "%*s %*d %d", &inner) != 1)
        inner = -1;
    if (file)
        fclose (file);
    guest->inner = inner;
    if (!proc_children (l.init, has_program, guest) && !*l.trouble)
        snprintf (l.trouble, sizeof (l.trouble), "rank %d is not among what criu has"
                  " brought back", (int) guest->rank);
}

static void bring_back (void)
{
    struct pipe_again *pipes = calloc ((size_t) l.n_guests * POST_FDS, sizeof (*pipes));
    struct shared_files shared = { NULL, 0 };
    char images[RESTORE_PATH_BYTES];
    size_t n = 0;

    for (int i = 0; pipes && i < l.n_guests; i++)
        n = add_pipes (&l.guests[i], pipes, n);
    if (restore_open (l.order->images, images, l.trouble, sizeof (l.trouble)) == 0
        && userns_make (l.trouble, sizeof (l.trouble)) == 0
        && shared_put_back (images, &shared, l.trouble, sizeof (l.trouble)) == 0)
        l.init = restore (l.order->criu, l.order->images, images, l.order->has_server,
                          l.order->before, pipes, n, l.trouble, sizeof (l.trouble));
    shared_close (&shared);
    for (int i = 0; i < l.n_guests; i++) {
        if (l.init > 0)
            find_program (&l.guests[i]);
        for (int f = 0; f < l.guests[i].n_fds; f++)
            close (l.guests[i].fds[f]);
        l.guests[i].n_fds = 0;
    }
    for (int i = 0; i < l.n_guests; i++)
        answer (&l.guests[i]);
    free (pipes);
}

/* --- messages ------------------------------------------------------------------- */

static void has_come (const struct post *post, const struct post_from *from,
                      const int *fds, int n_fds)
{
    struct guest *guest = &l.guests[l.n_guests];

    if (l.n_guests == l.order->count)
        return;
    l.n_guests++;
    *guest = (struct guest) {
        .rank = post->rank, .from = *from, .program = -1, .parent = -1,
        .process = (int) syscall (SYS_pidfd_open, from->pid, 0), .n_fds = n_fds,
    };
    memcpy (guest->fds, fds, (size_t) n_fds * sizeof (int));
    if (guest->process < 0)
        l.n_ended++;                    /* it has already gone */
    if (l.n_guests == l.order->count && *l.path)
        unlink (l.path);                /* nobody else will come */
    if (!*l.order->images && l.told < 0)
        answer (guest);
    else if (*l.order->images && l.n_guests == l.order->count)
        bring_back ();
}

static void has_told (const struct post_from *from, const int *fds)
{
    for (int i = 0; i < l.n_guests; i++)
        if (l.guests[i].from.pid == from->pid && l.guests[i].process >= 0) {
            l.guests[i].program = fds[0];
            l.guests[i].parent = fds[1];
            return;
        }
    close (fds[0]);
    close (fds[1]);
}

static void hear (void)
{
    struct post post;
    struct post_from from;
    int fds[POST_FDS], n = post_receive (l.fd, &post, &from, fds);

    if (n < 0)
        return;
    if (from.uid == geteuid () && post.program == 0)
        has_come (&post, &from, fds, n);
    else if (from.uid == geteuid () && n == 2)
        has_told (&from, fds);
    else
        while (n > 0)
            close (fds[--n]);
}

/* The process of a rank is gone: so is what is left of the rank inside. */
static void has_ended (struct guest *guest)
{
    close (guest->process);
    guest->process = -1;
    l.n_ended++;
    if (guest->parent >= 0) {
        syscall (SYS_pidfd_send_signal, guest->program, SIGKILL, NULL, 0);
        syscall (SYS_pidfd_send_signal, guest->parent, SIGKILL, NULL, 0);
        close (guest->program);
        close (guest->parent);
    }
}

/* The server is there when it has told all, or is gone. */
static void hear_server (void)
{
    size_t room = sizeof (l.environment) - 1 - l.n_told;
    ssize_t n = read (l.told, l.environment + l.n_told, room);

    if (n > 0) {
        l.n_told += (size_t) n;
        return;
    }
    close (l.told);
    l.told = -1;
    l.environment[l.n_told] = '\0';
    if (*l.environment == '!' || l.n_told == 0 || room == 0)
        snprintf (l.trouble, sizeof (l.trouble), "PMIx server: %.400s",
                  *l.environment == '!' ? l.environment + 1 : "it does not start");
    for (int i = 0; i < l.n_guests; i++)
        answer (&l.guests[i]);
}

static void take_signal (void)
{
    struct signalfd_siginfo about;

    if (read (l.signals, &about, sizeof (about)) == sizeof (about)
        && about.ssi_signo == PARENT_DIED && getppid () != l.keeper)
        leave ();
}

static _Noreturn void serve (void)
{
    for (;;) {
        l.polled[0] = (struct pollfd) { .fd = l.fd, .events = POLLIN };
        l.polled[1] = (struct pollfd) { .fd = l.signals, .events = POLLIN };
        l.polled[2] = (struct pollfd) { .fd = l.told, .events = POLLIN };
        for (int i = 0; i < l.n_guests; i++)
            l.polled[N_OWN_FDS + i] =
                (struct pollfd) { .fd = l.guests[i].process, .events = POLLIN };
        if (poll (l.polled, (nfds_t) (N_OWN_FDS + l.n_guests), -1) < 0)
            continue;
        for (int i = l.n_guests - 1; i >= 0; i--)
            if (l.guests[i].process >= 0 && l.polled[N_OWN_FDS + i].revents)
                has_ended (&l.guests[i]);
        if (l.polled[1].revents)
            take_signal ();
        if (l.polled[2].revents)
            hear_server ();
        if (l.polled[0].revents)
            hear ();
        if (l.n_ended == l.order->count)
            leave ();
    }
}

static void raise_limit (void)
{
    struct rlimit limit;

    if (getrlimit (RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit (RLIMIT_NOFILE, &limit);
    }
}

pid_t landlord_start (const struct house_order *order, int fd, const char *path)
{
    pid_t first = getpid (), keeper = getppid (), child = fork ();
    sigset_t heard;

    if (child != 0)
        return child;
    prctl (PR_SET_PDEATHSIG, PARENT_DIED);
    if (getppid () != first && getppid () != keeper)
        _exit (0);
    setsid ();
    l.said = fcntl (STDERR_FILENO, F_DUPFD_CLOEXEC, FD_OTHERS);
    let_go_of_streams ();               /* standard error is /dev/null now */
    fds_close_others ((int[]) { fd, l.said }, 2);
    sigemptyset (&heard);
    sigaddset (&heard, PARENT_DIED);
    l.order = order;
    l.fd = fd;
    l.path = path;
    l.keeper = keeper;
    l.signals = signalfd (-1, &heard, SFD_CLOEXEC);
    l.guests = calloc ((size_t) order->count, sizeof (*l.guests));
    l.polled = calloc ((size_t) order->count + N_OWN_FDS, sizeof (*l.polled));
    if (!l.guests || !l.polled || l.signals < 0)
        _exit (EXIT_NEVER_STARTED);
    raise_limit ();
    l.told = -1;
    if (!*order->images)
        begin ();
    if (order->server && l.init > 0)
        start_server ();
    close (l.said);
    serve ();
}
