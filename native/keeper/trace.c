#include "trace.h"

#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

bool trace_start (pid_t child)
{
    /* EXITKILL: if the keeper dies, a rank held at its exec is killed, not
     * freed. */
    return ptrace (PTRACE_SEIZE, child, NULL,
                   PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC) == 0;
}

bool trace_stopped (pid_t child, int wait_status)
{
    int event = wait_status >> 16, signo = WSTOPSIG (wait_status);

    if (event == PTRACE_EVENT_EXEC)
        return true;
    if (event == PTRACE_EVENT_STOP) {
        /* A stop by job control: it stays stopped until SIGCONT. */
        if (signo == SIGSTOP || signo == SIGTSTP || signo == SIGTTIN
            || signo == SIGTTOU)
            ptrace (PTRACE_LISTEN, child, NULL, NULL);
        else
            ptrace (PTRACE_CONT, child, NULL, NULL);
    } else {
        ptrace (PTRACE_CONT, child, NULL, (long) (event ? 0 : signo));
    }
    return false;
}

void trace_release (pid_t child)
{
    ptrace (PTRACE_DETACH, child, NULL, NULL);
}
