#include "mark.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARKS "%s/.yod-output"
#define TAIL_BYTES 128
#define LINE_BYTES (PATH_MAX + 2 * TAIL_BYTES + 64)

struct mark {
    bool is_named;
    long long bytes;
    size_t n_tail;
    unsigned char tail[TAIL_BYTES];
    const char *path;                   /* in the line that was read */
};

static bool take_tail (struct mark *mark, const char *hex)
{
    size_t n = strlen (hex);

    mark->n_tail = 0;
    if (strcmp (hex, "-") == 0)
        return true;
    if (n % 2 != 0 || n > sizeof (mark->tail) * 2)
        return false;
    for (size_t i = 0; i < n; i += 2) {
        unsigned byte;

        if (sscanf (hex + i, "%2x", &byte) != 1)
            return false;
        mark->tail[mark->n_tail++] = (unsigned char) byte;
    }
    return (long long) mark->n_tail <= mark->bytes;
}

/* One line; false: it is none. */
static bool take_line (struct mark *mark, char *line)
{
    char *how = strtok (line, " "), *bytes = strtok (NULL, " ");
    char *tail = strtok (NULL, " "), *end;

    mark->path = strtok (NULL, "\n");
    if (!how || !bytes || !tail || !mark->path || *mark->path != '/')
        return false;
    mark->is_named = strcmp (how, "name") == 0;
    mark->bytes = strtoll (bytes, &end, 10);
    return *end == '\0' && mark->bytes >= 0 && take_tail (mark, tail);
}

/* Whether the file has before the mark what it had. One that its owner may not
 * read is known by its name and size alone. */
static bool is_as_it_was (const struct mark *mark, int fd)
{
    unsigned char now[TAIL_BYTES];
    char name[64];
    ssize_t n;
    int reader;

    if (mark->n_tail == 0)
        return true;
    snprintf (name, sizeof (name), "/proc/self/fd/%d", fd);
    if ((reader = open (name, O_RDONLY | O_CLOEXEC)) < 0)
        return true;
    n = pread (reader, now, mark->n_tail, mark->bytes - (off_t) mark->n_tail);
    close (reader);
    return n == (ssize_t) mark->n_tail
           && memcmp (now, mark->tail, mark->n_tail) == 0;
}

static void cut (const struct mark *mark, int fd)
{
    struct stat about;

    if (fstat (fd, &about) != 0 || !S_ISREG (about.st_mode))
        return;
    if (about.st_size < mark->bytes)
        dprintf (2, "yod: %s has %lld of the %lld bytes that it had at the "
                 "checkpoint: output goes on behind them\n", mark->path,
                 (long long) about.st_size, mark->bytes);
    else if (!is_as_it_was (mark, fd))
        dprintf (2, "yod: %s is not the file of the checkpoint: output goes "
                 "on behind what it has\n", mark->path);
    else if (about.st_size > mark->bytes && ftruncate (fd, mark->bytes) != 0)
        dprintf (2, "yod: %s: cannot be cut back to the checkpoint: %s; "
                 "lines appear again\n", mark->path, strerror (errno));
}

static FILE *open_marks (const char *directory)
{
    char path[PATH_MAX];

    if (snprintf (path, sizeof (path), MARKS, directory) >= (int) sizeof (path))
        return NULL;
    return fopen (path, "re");
}

void mark_cut_named (const char *directory)
{
    char line[LINE_BYTES];
    struct mark mark;
    FILE *file = open_marks (directory);

    while (file && fgets (line, sizeof (line), file))
        if (take_line (&mark, line) && mark.is_named) {
            int fd = open (mark.path, O_WRONLY | O_CREAT | O_NOCTTY | O_CLOEXEC,
                           0666);

            if (fd < 0)
                continue;               /* who restores the rank says why */
            cut (&mark, fd);
            close (fd);
        }
    if (file)
        fclose (file);
}

void mark_cut_opened (const char *directory, int fd)
{
    char line[LINE_BYTES], name[64], path[PATH_MAX];
    struct mark mark;
    FILE *file = open_marks (directory);
    ssize_t n;

    snprintf (name, sizeof (name), "/proc/self/fd/%d", fd);
    n = readlink (name, path, sizeof (path) - 1);
    path[n < 0 ? 0 : n] = '\0';
    while (file && fgets (line, sizeof (line), file))
        if (take_line (&mark, line) && !mark.is_named
            && strcmp (mark.path, path) == 0)
            cut (&mark, fd);
    if (file)
        fclose (file);
}
