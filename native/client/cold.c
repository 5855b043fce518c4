#include "cold.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "name.h"

#define PYTHON "python3"
#define OPTIONS "-EPS"      /* see setup.py */
#define PATH_ROOM (PATH_MAX + 64)

_Noreturn void cold_fail (const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start (arguments, format);
    vsnprintf (text, sizeof (text), format, arguments);
    va_end (arguments);
    dprintf (2, "%s: %s\n", name_of_command (), text);
    _exit (name_failure ());
}

/* The directory that this program lies in, without a slash at the end. */
static void own_directory (char directory[PATH_MAX])
{
    char *slash;

    if (!name_path (directory))
        cold_fail ("it is not known where yod lies: %s", strerror (errno));
    if ((slash = strrchr (directory, '/')))
        *slash = 0;
}

static bool begins_with (const char *text, const char *start)
{
    return strncmp (text, start, strlen (start)) == 0;
}

static bool ends_with (const char *text, const char *end)
{
    size_t n = strlen (text), length = strlen (end);

    return n >= length && strcmp (text + n - length, end) == 0;
}

/* Whether a directory of Python's libraries has yod among its packages. */
static bool has_yod (const char *library)
{
    char path[PATH_ROOM];
    struct dirent *entry;
    bool has = false;
    DIR *entries;

    if (!(entries = opendir (library)))
        return false;
    while (!has && (entry = readdir (entries)))
        if (ends_with (entry->d_name, "-packages")
            && snprintf (path, sizeof (path), "%s/%s/yod", library,
                         entry->d_name) < (int) sizeof (path))
            has = access (path, F_OK) == 0;
    closedir (entries);
    return has;
}

/* The highest 3.N below PREFIX/LIB/python3.N that has yod; -1: none. */
static int release_in (const char *prefix, const char *lib)
{
    char path[PATH_ROOM], *rest;
    struct dirent *entry;
    DIR *entries;
    int best = -1;
    long minor;

    if (snprintf (path, sizeof (path), "%s/%s", prefix, lib)
            >= (int) sizeof (path)
        || !(entries = opendir (path)))
        return -1;
    while ((entry = readdir (entries))) {
        if (!begins_with (entry->d_name, PYTHON "."))
            continue;
        minor = strtol (entry->d_name + strlen (PYTHON "."), &rest, 10);
        if (*rest == 0 && minor > best && minor < 1000
            && snprintf (path, sizeof (path), "%s/%s/%s", prefix, lib,
                         entry->d_name) < (int) sizeof (path)
            && has_yod (path))
            best = (int) minor;
    }
    closedir (entries);
    return best;
}

static int installed_release (const char *directory)
{
    char prefix[PATH_ROOM];
    struct dirent *entry;
    DIR *entries;
    int best = -1, found;

    snprintf (prefix, sizeof (prefix), "%s/..", directory);
    if (!(entries = opendir (prefix)))
        return -1;
    while ((entry = readdir (entries)))
        if (begins_with (entry->d_name, "lib")
            && (found = release_in (prefix, entry->d_name)) > best)
            best = found;
    closedir (entries);
    return best;
}

static bool is_directory (int fd)
{
    struct stat status;

    return fstat (fd, &status) == 0 && S_ISDIR (status.st_mode);
}

/* Python does not start where a standard stream is a directory. Nothing can be
 * read there, and to write there fails as to write a closed one does. */
static void leave_directories (void)
{
    int null;

    if (is_directory (0) && (null = open ("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        dup2 (null, 0);
    for (int fd = 1; fd < 3; fd++)
        if (is_directory (fd))
            close (fd);
}

bool cold_is_forbidden (void)
{
    const char *chosen = getenv ("YOD_COLD");

    return !name_is_yodjob () && chosen && strcmp (chosen, "never") == 0;
}

_Noreturn void cold_run (int argc, char *argv[], const char *why)
{
    char directory[PATH_MAX], script[PATH_ROOM], python[PATH_ROOM];
    size_t n_given = argc > 0 ? (size_t) argc - 1 : 0;
    char **words = calloc (n_given + 4, sizeof (*words));
    int minor;

    if (*why && cold_is_forbidden ())
        cold_fail ("this launch would be cold, which YOD_COLD=never forbids: "
                   "%s", why);
    own_directory (directory);
    snprintf (script, sizeof (script), "%s/%s-cold", directory,
              name_of_command ());
    if (access (script, F_OK) != 0)
        cold_fail ("%.200s is missing: yod is not completely installed",
                   script);
    if (!words)
        cold_fail ("no memory");
    leave_directories ();
    words[0] = python;
    words[1] = (char *) OPTIONS;
    words[2] = script;
    if (n_given > 0)
        memcpy (words + 3, argv + 1, n_given * sizeof (*words));
    snprintf (python, sizeof (python), "%s/" PYTHON, directory);
    if (access (python, X_OK) == 0) {
        execv (python, words);
        cold_fail ("cannot start %.200s: %s", python, strerror (errno));
    }
    if ((minor = installed_release (directory)) >= 0) {
        snprintf (python, sizeof (python), PYTHON ".%d", minor);
        execvp (python, words);
    }
    snprintf (python, sizeof (python), PYTHON);
    execvp (python, words);
    cold_fail ("cannot start " PYTHON ": %s", strerror (errno));
}
