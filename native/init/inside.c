/* inside.c - process 1 of a namespace, and the parent of each rank there. */
#include "inside.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "post.h"
#include "relay.h"
#include "userns.h"

const int faults[] = { SIGILL, SIGFPE, SIGBUS, SIGSEGV, SIGTRAP, SIGSYS, 0 };

void let_go_of_streams (void)
{
    int fd = open ("/dev/null", O_RDWR | O_CLOEXEC);

    for (int i = 0; i < 3; i++)
        dup2 (fd, i);
    if (fd > 2)
        close (fd);
}

static _Noreturn void execute_self (char **words)
{
    char path[PATH_MAX];
    ssize_t n = readlink ("/proc/self/exe", path, sizeof (path) - 1);

    if (n > 0) {
        path[n] = '\0';
        execv (path, words);
    }
    _exit (EXIT_NEVER_STARTED);
}

_Noreturn void start_init (void)
{
    char *words[] = { "yod-init", BE_INIT, NULL };

    if (!userns_is_needed ())
        be_init ();
    userns_keep_capabilities ();        /* to mount /proc, when it is written down */
    execute_self (words);
}

_Noreturn void be_init (void)
{
    sigset_t all;

    prctl (PR_SET_PDEATHSIG, SIGKILL);
    setsid ();
    let_go_of_streams ();               /* those that are open are of another mount namespace */
    sigfillset (&all);
    sigprocmask (SIG_BLOCK, &all, NULL);
    if (chdir (userns_place ()) != 0)
        _exit (EXIT_NEVER_STARTED);
    for (;;) {
        sigwaitinfo (&all, NULL);
        while (waitpid (-1, NULL, WNOHANG) > 0)
            ;
    }
}

static _Noreturn void be_program (const struct inside *inside, int pmi)
{
    struct post here = { 0 };
    char number[16];

    setpgid (0, 0);
    sigprocmask (SIG_SETMASK, inside->before, NULL);
    if (pmi >= 0) {
        snprintf (number, sizeof (number), "%d", pmi);
        setenv ("PMI_FD", number, 1);
        unsetenv ("PMI_PORT");
        unsetenv ("PMI_ID");
    }
    if (post_send (inside->told, &here, NULL, NULL, 0) != 0)
        _exit (EXIT_NEVER_STARTED);
    execv (inside->words[0], inside->words + 1);
    fprintf (stderr, "yod-init: %s: %s\n", inside->words[inside->script >= 0],
             strerror (errno));
    _exit (EXIT_NEVER_STARTED);
}

/* struct clone_args of <linux/sched.h>, as of Linux 5.5. */
struct clone_call {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size,
             tls, set_tid, set_tid_size;
};

/* With a number in both namespaces; with any, where that is taken or the kernel
 * does not do it. */
static pid_t fork_as (pid_t number)
{
    pid_t numbers[2] = { number, number };
    struct clone_call call = {
        .exit_signal = SIGCHLD,
        .set_tid = (uintptr_t) numbers,
        .set_tid_size = 2,
    };
    long child = number > 1 ? syscall (SYS_clone3, &call, sizeof (call)) : -1;

    return child >= 0 ? (pid_t) child : fork ();
}

_Noreturn void be_parent (const struct inside *inside)
{
    int pair[2] = { -1, -1 };
    pid_t program;

    setsid ();
    if (inside->pmi_in >= 0
        && socketpair (AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        _exit (EXIT_NEVER_STARTED);
    program = fork_as (inside->number);
    if (program < 0)
        _exit (EXIT_NEVER_STARTED);
    if (program == 0) {
        if (pair[0] >= 0)
            close (pair[0]);
        be_program (inside, pair[1]);
    }
    setpgid (program, program);         /* whoever of the two is first */
    close (inside->told);
    if (inside->script >= 0)
        close (inside->script);
    let_go_of_streams ();
    if (chdir (userns_place ()) != 0)
        _exit (EXIT_NEVER_STARTED);
    if (pair[1] >= 0) {
        close (pair[1]);
        relay (pair[0], inside->pmi_in, inside->pmi_out);
    }
    for (;;)
        pause ();
}

/* --- the same, executed ---------------------------------------------------------- */

enum { WORD_MASK, WORD_TOLD, N_WORDS };
#define WORD_BYTES 24
#define SIGNALS 64

static uint64_t bits_of (const sigset_t *set)
{
    uint64_t bits = 0;

    for (int signo = 1; signo <= SIGNALS; signo++)
        if (sigismember (set, signo) == 1)
            bits |= UINT64_C (1) << (signo - 1);
    return bits;
}

static void set_of (uint64_t bits, sigset_t *set)
{
    sigemptyset (set);
    for (int signo = 1; signo <= SIGNALS; signo++)
        if (bits >> (signo - 1) & 1)
            sigaddset (set, signo);
}

_Noreturn void start_parent (const struct inside *inside)
{
    char mask[WORD_BYTES], told[WORD_BYTES];
    char **words;
    size_t n = 0;

    if (!userns_is_needed ())
        be_parent (inside);
    while (inside->words[n])
        n++;
    if (!(words = calloc (2 + N_WORDS + n + 1, sizeof (*words))))
        _exit (EXIT_NEVER_STARTED);
    snprintf (mask, sizeof (mask), "%" PRIu64, bits_of (inside->before));
    snprintf (told, sizeof (told), "%d", inside->told);
    fcntl (inside->told, F_SETFD, 0);
    words[0] = "yod-init";
    words[1] = BE_PARENT;
    words[2 + WORD_MASK] = mask;
    words[2 + WORD_TOLD] = told;
    memcpy (words + 2 + N_WORDS, inside->words, n * sizeof (*words));
    execute_self (words);
}

_Noreturn void be_parent_by_words (int count, char **words)
{
    struct inside inside = {
        .words = words + N_WORDS, .pmi_in = -1, .pmi_out = -1, .script = -1,
    };
    sigset_t before;

    if (count <= N_WORDS)
        _exit (EXIT_NEVER_STARTED);
    set_of (strtoull (words[WORD_MASK], NULL, 10), &before);
    inside.before = &before;
    inside.told = atoi (words[WORD_TOLD]);
    fcntl (inside.told, F_SETFD, FD_CLOEXEC);
    be_parent (&inside);
}
