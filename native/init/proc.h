/* proc.h - what /proc says of processes. */
#ifndef YOD_INIT_PROC_H
#define YOD_INIT_PROC_H

#include <sys/types.h>

/* Numbered as in proc_pid_stat(5). */
enum stat_field { STAT_PARENT = 4, STAT_STARTED = 22, STAT_END = 52 };

/* A field of /proc/PID/stat; -1: there is no such process. STAT_END is the wait
 * status of one that has ended and has not been waited for. */
long long proc_field (pid_t pid, enum stat_field field);

/* The number of a process in its own namespace; -1: there is no such process. */
pid_t proc_inner_pid (pid_t pid);

/* Call `visit` for each child of the first thread of a process, until it returns
 * something that is not 0.
 * Returns that, or 0. */
int proc_children (pid_t pid, int (*visit) (pid_t child, void *with), void *with);

#endif
