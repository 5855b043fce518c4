/* python.c - finds the Python interpreter for a command of ours. */
#include "python.h"

#include <dirent.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPTIONS "-EPS"                  /* as SCRIPT in setup.py has */
#define MORE_WORDS 3                    /* interpreter, its options, NULL */

/* From the directory above the command to that of our modules. */
static const char *const levels[] = { "lib*", "python3.*", "*-packages" };

#define N_LEVELS (sizeof (levels) / sizeof (*levels))
#define RELEASE_LEVEL 1                 /* whose name is the interpreter's */

static int no_dots (const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Find the last directory pythonX.Y, in the order of names, that has our
 * modules, and write its name to `found`.
 * release: the pythonX.Y that `directory` lies in; empty above that level. */
static void find_release (const char *directory, size_t level,
                          const char *release, char found[NAME_MAX + 1])
{
    struct dirent **entries;
    char path[PATH_MAX];
    struct stat status;
    int n;

    if (level == N_LEVELS) {
        snprintf (path, sizeof (path), "%s/yod", directory);
        if (stat (path, &status) == 0 && S_ISDIR (status.st_mode))
            snprintf (found, NAME_MAX + 1, "%s", release);
        return;
    }
    n = scandir (directory, &entries, no_dots, alphasort);
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;

        if (fnmatch (levels[level], name, 0) == 0
            && snprintf (path, sizeof (path), "%s/%s", directory, name)
               < (int) sizeof (path))
            find_release (path, level + 1,
                          level == RELEASE_LEVEL ? name : release, found);
        free (entries[i]);
    }
    if (n >= 0)
        free (entries);
}

/* The directory of the command, behind links to it. */
static void find_place (const char *command, char place[PATH_MAX])
{
    struct stat status;
    char *slash;

    if (lstat (command, &status) != 0 || !S_ISLNK (status.st_mode)
        || !realpath (command, place))
        snprintf (place, PATH_MAX, "%s", command);
    if ((slash = strrchr (place, '/')))
        *slash = '\0';
    else
        strcpy (place, ".");
}

void python_execute (char **words, int count)
{
    char **all = calloc ((size_t) count + MORE_WORDS, sizeof (*all));
    char place[PATH_MAX], path[PATH_MAX + sizeof ("/python3")];
    char release[NAME_MAX + 1] = "";

    if (!all)
        return;
    memcpy (all + 2, words, (size_t) count * sizeof (*all));
    all[1] = (char []) { OPTIONS };
    find_place (words[0], place);
    snprintf (path, sizeof (path), "%s/python3", place);
    all[0] = path;
    execv (path, all);
    snprintf (path, sizeof (path), "%s/..", place);
    find_release (path, 0, "", release);
    all[0] = release;
    if (*release)
        execvp (release, all);
    all[0] = (char []) { "python3" };
    execvp (all[0], all);
    free (all);
}
