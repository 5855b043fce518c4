/* Ends as it is told, after it has opened a library if one is named:
 *
 *     ending how [library]
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *other;

/* Any other system call kills. */
static void allow_only_exit (void)
{
    struct sock_filter code[] = {
        BPF_STMT (BPF_LD | BPF_W | BPF_ABS, offsetof (struct seccomp_data, nr)),
        BPF_JUMP (BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = { sizeof (code) / sizeof (code[0]), code };

    if (prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        || prctl (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        _exit (98);
}

static void *open_and_close (void *nothing)
{
    for (;;)
        dlclose (dlopen (other, RTLD_NOW));
    return nothing;
}

static void open_late (void)
{
    dlopen (other, RTLD_NOW);
}

static void hide_environment (void)
{
    for (char **variable = environ; *variable; variable++)
        memset (*variable, 0, strlen (*variable));
}

static int end (const char *how)
{
    if (strcmp (how, "exit") == 0)
        exit (3);
    if (strcmp (how, "_exit") == 0)
        _exit (0);
    if (strcmp (how, "kill") == 0)
        raise (SIGTERM);
    if (strcmp (how, "exec") == 0)
        execl ("/bin/true", "true", NULL);
    if (strcmp (how, "child exits") == 0) {
        hide_environment ();            /* a look tells nothing about us */
        if (fork () == 0)
            exit (0);
        wait (NULL);
        _exit (0);
    }
    if (strcmp (how, "confined") == 0)
        allow_only_exit ();
    return 0;
}

int main (int argc, char **argv)
{
    pthread_t thread;

    other = argv[2];
    if (strcmp (argv[1], "late") == 0)
        atexit (open_late);
    else if (argc > 2 && !dlopen (other, RTLD_NOW))
        return 99;
    if (strcmp (argv[1], "closing") == 0) {
        other = argv[3];
        for (int i = 0; i < 2; i++)
            pthread_create (&thread, NULL, open_and_close, NULL);
    }
    return end (argv[1]);
}
