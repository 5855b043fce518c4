#include "mapped.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool mapped_is_program (pid_t unix_pid, const char *path)
{
    struct stat runs, named;
    char exe[32];

    snprintf (exe, sizeof (exe), "/proc/%d/exe", unix_pid);
    return stat (exe, &runs) == 0 && stat (path, &named) == 0
           && runs.st_dev == named.st_dev && runs.st_ino == named.st_ino;
}

static bool is_mpi_library (const char *path)
{
    static const char starts[][MPI_NAME_BYTES] = MPI_NAMES;
    const char *name = strrchr (path, '/') + 1;

    for (size_t i = 0; i < sizeof (starts) / sizeof (starts[0]); i++)
        if (strncmp (name, starts[i], strlen (starts[i])) == 0)
            return true;
    return false;
}

/* Copy a path; of one that is too long three dots and the end, which tells
 * more. */
static void copy (char text[static CLAIM_BYTES], const char *path)
{
    size_t length = strlen (path);

    if (length < CLAIM_BYTES)
        memcpy (text, path, length + 1);
    else
        snprintf (text, CLAIM_BYTES, "...%s",
                  path + length - (CLAIM_BYTES - 4));
}

/* Whether a mapping is executable: a linker maps libraries only to read. */
static bool is_code (const char *line)
{
    const char *rights = strchr (line, ' ');

    return rights && strlen (rights) > 4 && rights[3] == 'x';
}

/* Remove the complete lines from the front.
 *
 * True: one of them names an MPI library, which is in `text`.
 */
static bool take_lines (char *lines, size_t *bytes,
                        char text[static CLAIM_BYTES])
{
    char *line = lines, *end, *path;

    while ((end = memchr (line, '\n', *bytes - (size_t) (line - lines)))) {
        *end = 0;
        if ((path = strchr (line, '/')) && is_mpi_library (path)
            && is_code (line) && claim_is_line (path)) {
            copy (text, path);
            return true;
        }
        line = end + 1;
    }
    *bytes -= (size_t) (line - lines);
    memmove (lines, line, *bytes);
    return false;
}

bool mapped_find (pid_t unix_pid, char text[static CLAIM_BYTES])
{
    char name[32], lines[2 * 4096];     /* a path has 4095 bytes at most */
    bool is_found = false;
    size_t bytes = 0;
    ssize_t n;
    int fd;

    snprintf (name, sizeof (name), "/proc/%d/maps", unix_pid);
    if ((fd = open (name, O_RDONLY | O_CLOEXEC)) < 0)
        return false;
    while (!is_found && bytes < sizeof (lines)
           && (n = read (fd, lines + bytes, sizeof (lines) - bytes)) > 0) {
        bytes += (size_t) n;
        is_found = take_lines (lines, &bytes, text);
    }
    close (fd);
    return is_found;
}

/* --- claims ---------------------------------------------------------------- */

int claim_make_file (size_t n_ranks)
{
    int fd = memfd_create ("yodhold", MFD_CLOEXEC);

    if (fd >= 0
        && ftruncate (fd, (off_t) (n_ranks * CLAIM_STRIDE_BYTES)) != 0) {
        close (fd);
        return -1;
    }
    return fd;
}

bool claim_is_line (const char *text)
{
    for (; *text; text++)
        if ((unsigned char) *text < ' ' || *text == 127)
            return false;
    return true;
}

bool claim_read (int fd, size_t index, char text[static CLAIM_BYTES])
{
    /* Read, not mapped: a mapping would fault if the file were cut short. */
    ssize_t n = pread (fd, text, CLAIM_BYTES,
                       (off_t) (index * CLAIM_STRIDE_BYTES));

    return n == CLAIM_BYTES && *text && memchr (text, 0, CLAIM_BYTES)
           && claim_is_line (text);
}
