/* report.c - sends a report. */
#include "report.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <time.h>

uint64_t report_now (void)
{
    struct timespec now;

    clock_gettime (CLOCK_REALTIME, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

void report_send (struct report *report, int fd)
{
    size_t size = offsetof (struct report, tails)
                  + report->output_bytes + report->error_bytes;

    while (send (fd, report, size, MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}
