#include "proc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 64

static FILE *open_of (pid_t pid, const char *format)
{
    char path[PATH_BYTES];

    snprintf (path, sizeof (path), format, (int) pid, (int) pid);
    return fopen (path, "re");
}

long long proc_field (pid_t pid, enum stat_field field)
{
    char line[1024];
    char *at = NULL;
    FILE *file = open_of (pid, "/proc/%d/stat");
    size_t n;

    if (!file)
        return -1;
    n = fread (line, 1, sizeof (line) - 1, file);
    fclose (file);
    line[n] = '\0';
    at = strrchr (line, ')');           /* a name may have blanks in it */
    for (int i = 2; at && i < (int) field; i++)
        at = strchr (at + 1, ' ');
    return at ? atoll (at + 1) : -1;
}

pid_t proc_inner_pid (pid_t pid)
{
    char line[256];
    const char *last;
    int inner = -1;
    FILE *file = open_of (pid, "/proc/%d/status");

    if (!file)
        return -1;
    while (fgets (line, sizeof (line), file))
        if (strncmp (line, "NSpid:", 6) == 0 && (last = strrchr (line, '\t')))
            inner = atoi (last + 1);
    fclose (file);
    return inner;
}

int proc_children (pid_t pid, int (*visit) (pid_t child, void *with), void *with)
{
    FILE *file = open_of (pid, "/proc/%d/task/%d/children");
    int child, found = 0;

    if (!file)
        return 0;
    while (found == 0 && fscanf (file, "%d", &child) == 1)
        found = visit (child, with);
    fclose (file);
    return found;
}
