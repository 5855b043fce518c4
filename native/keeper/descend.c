#include "descend.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A process that forks faster than we walk would keep us here for ever. */
#define MAX_WALKS 16

struct pids {
    pid_t *list;
    size_t count, room;
};

static bool add (struct pids *pids, pid_t pid)
{
    if (pids->count == pids->room) {
        size_t room = pids->room ? 2 * pids->room : 64;
        pid_t *more = realloc (pids->list, room * sizeof (*more));

        if (!more)
            return false;
        pids->list = more;
        pids->room = room;
    }
    pids->list[pids->count++] = pid;
    return true;
}

static void add_numbers (struct pids *pids, int fd)
{
    char text[4096];
    pid_t number = 0;
    ssize_t n;

    while ((n = read (fd, text, sizeof (text))) > 0)
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                number = number * 10 + (text[i] - '0');
            } else if (number > 0) {
                add (pids, number);
                number = 0;
            }
        }
}

/* Each thread has its own list of the children that it made. */
static void add_children (struct pids *pids, pid_t parent)
{
    char path[64];
    struct dirent *task;
    DIR *tasks;
    int fd;

    snprintf (path, sizeof (path), "/proc/%d/task", parent);
    if (!(tasks = opendir (path)))
        return;
    while ((task = readdir (tasks))) {
        if (task->d_name[0] == '.')
            continue;
        snprintf (path, sizeof (path), "%.20s/children", task->d_name);
        fd = openat (dirfd (tasks), path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            add_numbers (pids, fd);
            close (fd);
        }
    }
    closedir (tasks);
}

static int compare (const void *a, const void *b)
{
    pid_t left = *(const pid_t *) a, right = *(const pid_t *) b;

    return (left > right) - (left < right);
}

static void walk (struct pids *found)
{
    found->count = 0;
    add_children (found, getpid ());
    for (size_t i = 0; i < found->count; i++)
        add_children (found, found->list[i]);
    qsort (found->list, found->count, sizeof (pid_t), compare);
}

/* Stop what the walk before did not find; how many there were. */
static size_t stop_new (const struct pids *found, const struct pids *before)
{
    size_t n = 0;

    for (size_t i = 0; i < found->count; i++)
        if (!before->count
            || !bsearch (&found->list[i], before->list, before->count,
                         sizeof (pid_t), compare)) {
            kill (found->list[i], SIGSTOP);
            n++;
        }
    return n;
}

size_t descend_kill (void)
{
    struct pids now = { 0 }, last = { 0 }, swap;
    size_t killed = 0, n_new;

    for (int i = 0; i < MAX_WALKS; i++) {
        walk (&now);
        n_new = stop_new (&now, &last);
        swap = last;
        last = now;
        now = swap;
        if (n_new == 0)
            break;
    }
    for (size_t i = 0; i < last.count; i++)
        if (kill (last.list[i], SIGKILL) == 0)
            killed++;
    free (now.list);
    free (last.list);
    return killed;
}
