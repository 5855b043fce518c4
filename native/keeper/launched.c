#include "launched.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENVIRONMENT_MAX_BYTES (8u << 20)        /* exec allows 6 MiB */

/* Variables of launchers (prefixes), and among them those that users set. */
static const char *const launchers[] = {
    "PMI_", "PMI2_", "PMIX_", "OMPI_COMM_WORLD_", "HYDI_", "MPI_LOCAL",
    "YOD_OUTER_",
};
static const char *const users[] = { "PMIX_MCA_", "PMIX_PREFIX", "PMI_DEBUG" };

/* With these a loader lists the libraries of a program and does not start it:
 * for ldd, and for a yod that looks what a program will load. */
static const char *const listers[] = {
    "LD_TRACE_LOADED_OBJECTS=", "YOD_LISTS_LIBRARIES=",
};

static bool starts_with_one (const char *text, const char *const starts[],
                             size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp (text, starts[i], strlen (starts[i])) == 0)
            return true;
    return false;
}

static bool is_launchers (const char *variable)
{
    return starts_with_one (variable, launchers,
                            sizeof (launchers) / sizeof (launchers[0]))
           && !starts_with_one (variable, users,
                                sizeof (users) / sizeof (users[0]));
}

static bool contains (const struct spec_strings *strings, const char *text)
{
    for (size_t i = 0; i < strings->count; i++)
        if (strcmp (strings->list[i], text) == 0)
            return true;
    return false;
}

static bool was_given (const char *variable, const struct spec *spec,
                       const struct spec_rank *rank, int pmi_fd)
{
    char own[32];

    snprintf (own, sizeof (own), "PMI_FD=%d", pmi_fd);
    return contains (&rank->environment, variable)
           || contains (&spec->environment, variable)
           || (pmi_fd >= 0 && strcmp (variable, own) == 0);
}

/* Read the whole environment and append a NUL. NULL: it cannot be read. */
static char *read_environment (pid_t unix_pid, size_t *bytesp)
{
    char name[32], *text = NULL, *more;
    size_t room = 0, bytes = 0;
    ssize_t n = -1;
    int fd;

    snprintf (name, sizeof (name), "/proc/%d/environ", unix_pid);
    if ((fd = open (name, O_RDONLY | O_CLOEXEC)) < 0)
        return NULL;
    while (room < ENVIRONMENT_MAX_BYTES) {
        room = room > 0 ? 2 * room : 16384;
        if (!(more = realloc (text, room + 1)))
            break;
        text = more;
        while (bytes < room
               && (n = read (fd, text + bytes, room - bytes)) > 0)
            bytes += (size_t) n;
        if (n <= 0)
            break;
    }
    close (fd);
    if (n != 0) {
        free (text);
        return NULL;
    }
    text[bytes] = 0;
    *bytesp = bytes;
    return text;
}

static bool has_program (pid_t unix_pid)
{
    char name[32], path[8];

    snprintf (name, sizeof (name), "/proc/%d/exe", unix_pid);
    return readlink (name, path, sizeof (path)) > 0;
}

bool launched_by_us (pid_t unix_pid, const struct spec *spec,
                     const struct spec_rank *rank, int pmi_fd)
{
    size_t bytes = 0, n_variables = 0;
    char *text = read_environment (unix_pid, &bytes);
    bool is_ours = text;

    for (size_t at = 0; is_ours && at < bytes; at += strlen (text + at) + 1) {
        if (strchr (text + at, '='))
            n_variables++;
        is_ours = !starts_with_one (text + at, listers,
                                    sizeof (listers) / sizeof (listers[0]))
                  && (!is_launchers (text + at)
                      || was_given (text + at, spec, rank, pmi_fd));
    }
    /* The file is empty when the process has ended meanwhile. */
    if (bytes == 0 && !has_program (unix_pid))
        is_ours = false;
    /* A program that sets its title writes it there, and zeros. */
    if (bytes > 0 && n_variables == 0)
        is_ours = false;
    free (text);
    return is_ours;
}
