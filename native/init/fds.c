#include "fds.h"

#include <fcntl.h>
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
