/* Runs the keeper on a node that allows less: -DNO_PTRACE forbids tracing, as
 * some containers do, -DOPEN_FILES=n leaves it few descriptors.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef NO_PTRACE
static int confine (void)
{
    struct sock_filter code[] = {
        BPF_STMT (BPF_LD | BPF_W | BPF_ABS, offsetof (struct seccomp_data, nr)),
        BPF_JUMP (BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
        BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = { sizeof (code) / sizeof (code[0]), code };

    return prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
           || prctl (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}
#else
static int confine (void)
{
    struct rlimit limit = { OPEN_FILES, OPEN_FILES };

    return setrlimit (RLIMIT_NOFILE, &limit);
}
#endif

int main (int argc, char **argv)
{
    char *none[] = { NULL };

    (void) argc;
    if (confine () == 0)
        execve (KEEPER, argv, none);
    return 99;
}
