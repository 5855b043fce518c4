#include "shared.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc.h"

#define PLACE "/dev/shm/"
#define KEPT "shm"                      /* the directory below the images */
#define DELETED " (deleted)"

/* Copy what a file has, and leave its holes. 0, or -1 */
static int copy (int from, int to)
{
    struct stat about;
    off_t at = 0, end;

    if (fstat (from, &about) != 0 || ftruncate (to, about.st_size) != 0)
        return -1;
    while (at < about.st_size && (at = lseek (from, at, SEEK_DATA)) >= 0) {
        end = lseek (from, at, SEEK_HOLE);
        if (end < 0 || lseek (to, at, SEEK_SET) < 0)
            return -1;
        while (at < end)
            if (sendfile (to, from, &at, (size_t) (end - at)) <= 0)
                return -1;
    }
    if (at < 0 && errno != ENXIO)       /* that: only a hole is left */
        return -1;
    return fchown (to, about.st_uid, about.st_gid) != 0
           || fchmod (to, about.st_mode & 07777) != 0 ? -1 : 0;
}

/* --- keep ---------------------------------------------------------------------- */

struct keeping {
    int directory;                      /* -1: not yet made */
    const char *images;
    bool has_failed;
};

static int fail (struct keeping *keeping, const char *what)
{
    fprintf (stderr, "yod-init: %s: %s\n", what, strerror (errno));
    keeping->has_failed = true;
    return -1;
}

static int make_directory (struct keeping *keeping)
{
    char path[PATH_MAX];

    if (keeping->directory >= 0)
        return 0;
    snprintf (path, sizeof (path), "%s/" KEPT, keeping->images);
    if (mkdir (path, 0700) != 0 && errno != EEXIST)
        return fail (keeping, path);
    keeping->directory = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return keeping->directory < 0 ? fail (keeping, path) : 0;
}

/* Files of which several processes know are met again and again. */
static void keep (struct keeping *keeping, const char *path)
{
    const char *name = path + strlen (PLACE);
    size_t length = strlen (path);
    struct stat about;
    int from, to;

    if (strncmp (path, PLACE, strlen (PLACE)) != 0 || strchr (name, '/')
        || (length > strlen (DELETED)
            && strcmp (path + length - strlen (DELETED), DELETED) == 0)
        || make_directory (keeping) != 0)
        return;
    from = open (path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (from < 0 || fstat (from, &about) != 0 || !S_ISREG (about.st_mode)) {
        close (from);
        return;
    }
    to = openat (keeping->directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (to >= 0 ? copy (from, to) != 0 : errno != EEXIST)
        fail (keeping, path);
    close (to);
    close (from);
}

static void keep_mapped (pid_t pid, struct keeping *keeping)
{
    char path[64], line[PATH_MAX + 128];
    char *name;
    FILE *file;

    snprintf (path, sizeof (path), "/proc/%d/maps", (int) pid);
    if (!(file = fopen (path, "re")))
        return;
    while (fgets (line, sizeof (line), file))
        if ((name = strstr (line, " " PLACE))) {
            name[strcspn (name, "\n")] = '\0';
            keep (keeping, name + 1);
        }
    fclose (file);
}

static void keep_open (pid_t pid, struct keeping *keeping)
{
    char path[64], name[PATH_MAX];
    struct dirent *entry;
    ssize_t n;
    DIR *fds;

    snprintf (path, sizeof (path), "/proc/%d/fd", (int) pid);
    if (!(fds = opendir (path)))
        return;
    while ((entry = readdir (fds))) {
        n = readlinkat (dirfd (fds), entry->d_name, name, sizeof (name) - 1);
        if (n > 0) {
            name[n] = '\0';
            keep (keeping, name);
        }
    }
    closedir (fds);
}

static int keep_all (pid_t pid, void *with)
{
    keep_mapped (pid, with);
    keep_open (pid, with);
    proc_children (pid, keep_all, with);
    return 0;
}

int shared_keep (pid_t init, const char *images)
{
    struct keeping keeping = { .directory = -1, .images = images };

    keep_all (init, &keeping);
    return keeping.has_failed ? -1 : 0;
}

/* --- put back -------------------------------------------------------------------- */

/* A file of the name is another's as long as anybody has it open or mapped. */
static int open_free (const char *path)
{
    struct stat about;
    int fd = open (path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd >= 0 || errno != EEXIST)
        return fd;
    fd = open (path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat (fd, &about) == 0 && S_ISREG (about.st_mode)
        && fcntl (fd, F_SETLEASE, F_WRLCK) == 0) {
        fcntl (fd, F_SETLEASE, F_UNLCK);
        return fd;
    }
    close (fd);
    errno = EBUSY;
    return -1;
}

static int put_back (int directory, const char *name, struct shared_files *files)
{
    char path[PATH_MAX];
    int from = openat (directory, name, O_RDONLY | O_CLOEXEC), to = -1;
    int *more = realloc (files->fds, (files->n + 1) * sizeof (*more));

    if (more)
        files->fds = more;
    snprintf (path, sizeof (path), PLACE "%s", name);
    if (!more || from < 0 || (to = open_free (path)) < 0) {
        if (from >= 0)
            close (from);
        return -1;
    }
    files->fds[files->n++] = to;
    if (ftruncate (to, 0) != 0 || copy (from, to) != 0) {
        close (from);
        return -1;
    }
    close (from);
    return 0;
}

int shared_put_back (const char *images, struct shared_files *files,
                     char *trouble, size_t trouble_bytes)
{
    char path[PATH_MAX];
    struct dirent *entry;
    DIR *kept;
    int done = 0;

    snprintf (path, sizeof (path), "%s/" KEPT, images);
    if (!(kept = opendir (path)))
        return 0;                       /* there were none */
    while (done == 0 && (entry = readdir (kept)))
        if (entry->d_name[0] != '.' && put_back (dirfd (kept), entry->d_name, files) != 0) {
            snprintf (trouble, trouble_bytes, "%.300s: %s", entry->d_name,
                      errno == EBUSY ? "in /dev/shm, where another process has it open"
                                     : strerror (errno));
            done = -1;
        }
    closedir (kept);
    return done;
}

void shared_close (struct shared_files *files)
{
    for (size_t i = 0; i < files->n; i++)
        close (files->fds[i]);
    free (files->fds);
    *files = (struct shared_files) { NULL, 0 };
}
