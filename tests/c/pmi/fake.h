/* fake.h - a PMI-1 server that has answered before it is asked.
 *
 * Answers wait in the socket; the requests are read afterwards.
 */
#ifndef FAKE_H
#define FAKE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pmi.h"

#define CHECK(condition)                                                \
    do {                                                                \
        if (!(condition)) {                                             \
            fprintf (stderr, "%s:%d: %s\n", __FILE__, __LINE__,         \
                     #condition);                                       \
            exit (1);                                                   \
        }                                                               \
    } while (0)

#define JOINED                                                          \
    "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"        \
    "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"

struct fake {
    int fd, theirs;
};

static inline void fake_open (struct fake *fake, const char *rank,
                              const char *size)
{
    int ends[2];
    char number[16];

    CHECK (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    *fake = (struct fake){ ends[0], ends[1] };
    snprintf (number, sizeof (number), "%d", ends[1]);
    setenv ("PMI_FD", number, 1);
    setenv ("PMI_RANK", rank, 1);
    setenv ("PMI_SIZE", size, 1);
}

static inline void fake_close (struct fake *fake)
{
    if (fake->fd >= 0)
        close (fake->fd);
    close (fake->theirs);
}

static inline void fake_bytes (struct fake *fake, const char *bytes,
                               size_t length)
{
    CHECK (send (fake->fd, bytes, length, MSG_NOSIGNAL) == (ssize_t)length);
}

static inline void fake_say (struct fake *fake, const char *text)
{
    fake_bytes (fake, text, strlen (text));
}

/* No answer follows those that wait. */
static inline void fake_end (struct fake *fake)
{
    shutdown (fake->fd, SHUT_WR);
}

/* What has been asked since the last time is exactly this. */
static inline void fake_heard (struct fake *fake, const char *text)
{
    static char heard[65536];
    ssize_t n = recv (fake->fd, heard, sizeof (heard) - 1, MSG_DONTWAIT);

    heard[n < 0 ? 0 : n] = 0;
    if (strcmp (heard, text) != 0)
        fprintf (stderr, "asked: %s", heard);
    CHECK (strcmp (heard, text) == 0);
}

#endif
