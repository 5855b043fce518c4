#include "descend.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Limit of walks in a pass: a process that forks faster than we walk would hold
 * us for ever. Killing what was found so far slows it down. */
#define MAX_WALKS 16
#define LIST_MAX_THREADS 1024           /* to be asked for their children */
#define PF_EXITING 4                    /* the kernel's, linux/sched.h */

struct pids {
    pid_t *list;
    size_t count, room;
    size_t most;                        /* that may be added; 0: any number */
    size_t n_threads;                   /* that were asked for children */
};

static bool is_enough (const struct pids *pids)
{
    return pids->most > 0 && (pids->count >= pids->most
                              || pids->n_threads >= LIST_MAX_THREADS);
}

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

    while (!is_enough (pids) && (n = read (fd, text, sizeof (text))) > 0)
        for (ssize_t i = 0; i < n && !is_enough (pids); i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                number = number * 10 + (text[i] - '0');
            } else if (number > 0) {
                add (pids, number);
                number = 0;
            }
        }
}

/* Each thread has a list of the children that it made. */
static void add_children (struct pids *pids, pid_t parent)
{
    char path[64];
    struct dirent *task;
    DIR *tasks;
    int fd;

    snprintf (path, sizeof (path), "/proc/%d/task", parent);
    if (!(tasks = opendir (path)))
        return;
    while (!is_enough (pids) && (task = readdir (tasks))) {
        if (task->d_name[0] == '.')
            continue;
        pids->n_threads++;
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

static bool contains (const struct pids *sorted, pid_t pid)
{
    return sorted->count > 0
           && bsearch (&pid, sorted->list, sorted->count, sizeof (pid_t),
                       compare);
}

static void remove_spared (struct pids *pids, const pid_t spared[],
                           size_t n_spared)
{
    size_t n = 0;

    for (size_t i = 0; i < pids->count; i++) {
        bool is_spared = false;

        for (size_t j = 0; j < n_spared && !is_spared; j++)
            is_spared = spared[j] == pids->list[i];
        if (!is_spared)
            pids->list[n++] = pids->list[i];
    }
    pids->count = n;
}

/* Stop the processes below us that are not yet known, each before its children
 * are listed, so that it makes no more. Known ones are stopped already; new
 * ones are only orphans of processes that ended by themselves. */
static size_t stop_new (struct pids *known, const pid_t spared[],
                        size_t n_spared)
{
    struct pids fresh = { 0 };
    size_t n_new = 0;

    add_children (&fresh, getpid ());
    remove_spared (&fresh, spared, n_spared);
    for (size_t i = 0; i < fresh.count; i++) {
        if (contains (known, fresh.list[i]))
            continue;
        kill (fresh.list[i], SIGSTOP);
        add_children (&fresh, fresh.list[i]);
        n_new++;
    }
    for (size_t i = 0; i < fresh.count; i++)
        add (known, fresh.list[i]);
    if (known->count > 0)
        qsort (known->list, known->count, sizeof (pid_t), compare);
    free (fresh.list);
    return n_new;
}

/* Field 9 of a stat file. Found from the last `)`, because the name before it
 * may hold any character. */
static bool has_flag (int tasks, const char *task, unsigned long flag)
{
    char path[64], text[512], *end;
    unsigned long flags = 0;
    ssize_t n;
    int fd;

    snprintf (path, sizeof (path), "%.20s/stat", task);
    if ((fd = openat (tasks, path, O_RDONLY | O_CLOEXEC)) < 0)
        return true;                    /* it has gone just now */
    n = read (fd, text, sizeof (text) - 1);
    close (fd);
    text[n > 0 ? n : 0] = 0;
    end = strrchr (text, ')');
    for (int i = 2; end && i < 9; i++)
        end = strchr (end + 1, ' ');
    if (end)
        flags = strtoul (end, NULL, 10);
    return flags & flag;
}

bool descend_is_exiting (pid_t unix_pid)
{
    bool is_exiting = true;
    struct dirent *task;
    char path[64];
    DIR *tasks;

    snprintf (path, sizeof (path), "/proc/%d/task", unix_pid);
    if (!(tasks = opendir (path)))
        return false;                   /* no /proc */
    while (is_exiting && (task = readdir (tasks)))
        if (task->d_name[0] != '.')
            is_exiting = has_flag (dirfd (tasks), task->d_name, PF_EXITING);
    closedir (tasks);
    return is_exiting;
}

size_t descend_kill (const pid_t spared[], size_t n_spared)
{
    struct pids known = { 0 };
    size_t killed = 0;

    for (int i = 0; i < MAX_WALKS; i++)
        if (stop_new (&known, spared, n_spared) == 0)
            break;
    for (size_t i = 0; i < known.count; i++)
        if ((i == 0 || known.list[i] != known.list[i - 1])
            && kill (known.list[i], SIGKILL) == 0)
            killed++;
    free (known.list);
    return killed;
}

void descend_stop (void)
{
    struct pids known = { 0 };

    for (int i = 0; i < MAX_WALKS; i++)
        if (stop_new (&known, NULL, 0) == 0)
            break;
    free (known.list);
}

/* A process that was continued may fork while we walk, and its children run.
 * What it had forked before it was stopped is found below it. */
void descend_continue (void)
{
    struct pids found = { 0 };

    add_children (&found, getpid ());
    for (size_t i = 0; i < found.count; i++)
        add_children (&found, found.list[i]);
    for (size_t i = 0; i < found.count; i++)
        kill (found.list[i], SIGCONT);
    free (found.list);
}

size_t descend_list (pid_t unix_pid, pid_t list[], size_t most)
{
    struct pids found = { .most = most };

    add_children (&found, unix_pid);
    for (size_t i = 0; i < found.count && !is_enough (&found); i++)
        add_children (&found, found.list[i]);
    if (found.count > 0)
        memcpy (list, found.list, found.count * sizeof (*list));
    free (found.list);
    return found.count;
}
