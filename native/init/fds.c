#include "fds.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST 1024                       /* this program opens none above */

int fds_above (int fd)
{
    int other = fcntl (fd, F_DUPFD_CLOEXEC, FD_OTHERS);

    close (fd);
    return other;
}

int fds_put (int fd, int number)
{
    int other = dup3 (fd, number, O_CLOEXEC);

    close (fd);
    return other < 0 ? -1 : 0;
}

void fds_close_others (const int *kept, size_t n)
{
    for (int fd = 3; fd < MOST; fd++) {
        size_t i = 0;

        while (i < n && kept[i] != fd)
            i++;
        if (i == n)
            close (fd);
    }
}

static bool is_same_file (const struct stat *one, const struct stat *other)
{
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

/* Returns a descriptor of the same file, in the same state; -1: there is none by its name. */
static int open_again (int fd, const struct stat *about)
{
    char link[32], name[PATH_MAX];
    struct stat found;
    ssize_t n;
    int other = -1;

    snprintf (link, sizeof (link), "/proc/self/fd/%d", fd);
    if ((n = readlink (link, name, sizeof (name) - 1)) < 0)
        return -1;
    name[n] = '\0';
    other = open (name, (fcntl (fd, F_GETFL) & ~(O_CREAT | O_EXCL | O_TRUNC)) | O_NOCTTY
                        | O_CLOEXEC);
    if (other >= 0 && (fstat (other, &found) != 0 || !is_same_file (about, &found))) {
        close (other);
        return -1;
    }
    if (other >= 0 && S_ISREG (about->st_mode))
        lseek (other, lseek (fd, 0, SEEK_CUR), SEEK_SET);
    return other;
}

void fds_open_again (void)
{
    struct stat about[STDERR_FILENO + 1] = { 0 };

    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        int other;

        if (fstat (fd, &about[fd]) != 0 || S_ISFIFO (about[fd].st_mode)
            || S_ISSOCK (about[fd].st_mode))
            continue;
        if (fd == STDERR_FILENO && is_same_file (&about[STDOUT_FILENO], &about[fd])) {
            dup2 (STDOUT_FILENO, fd);   /* one position for both */
            continue;
        }
        if ((other = open_again (fd, &about[fd])) >= 0) {
            dup2 (other, fd);
            close (other);
        }
    }
}
