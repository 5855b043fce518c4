/* affinity.h - the processors of a rank that has been brought back. */
#ifndef YOD_INIT_AFFINITY_H
#define YOD_INIT_AFFINITY_H

#include <sys/types.h>

/* Bind all threads of a program to those that this process is bound to. */
void affinity_give (pid_t program);

#endif
