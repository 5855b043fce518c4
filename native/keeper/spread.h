/* spread.h - whom a signal to a rank reaches: the rank, or its helpers, too. */
#ifndef YOD_KEEPER_SPREAD_H
#define YOD_KEEPER_SPREAD_H

#include <signal.h>
#include <stdbool.h>

/* What is to end or to stop a rank is for its whole process group. Any other
 * signal is a message to the program, and would end helpers that expect none. */
static inline bool spread_is_to_group (int signo)
{
    return signo == SIGTERM || signo == SIGINT || signo == SIGKILL
           || signo == SIGSTOP || signo == SIGCONT;
}

#endif
