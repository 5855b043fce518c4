#include "affinity.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MASK_WORDS 128                  /* of 64 processors each */

/* The calls are raw because libc's set has a fixed size. */
void affinity_give (pid_t program)
{
    static unsigned long mask[MASK_WORDS];
    char path[64];
    struct dirent *task;
    DIR *tasks;
    long bytes = syscall (SYS_sched_getaffinity, 0, sizeof (mask), mask);

    snprintf (path, sizeof (path), "/proc/%d/task", (int) program);
    if (bytes <= 0 || !(tasks = opendir (path)))
        return;
    while ((task = readdir (tasks)))
        if (task->d_name[0] != '.')
            syscall (SYS_sched_setaffinity, atoi (task->d_name), (size_t) bytes, mask);
    closedir (tasks);
}
