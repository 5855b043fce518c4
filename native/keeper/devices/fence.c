#include "fence.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define PCT "/yod-pct-"
#define REQUEST_MAX_BYTES 20480

static int say (char problem[REPORT_TEXT_BYTES], const char *text)
{
    snprintf (problem, REPORT_TEXT_BYTES, "%s", text);
    return -1;
}

const char *fence_pct (const char *group, const char *end)
{
    for (ptrdiff_t at = end - group - 2; at >= 0; at--) {
        const char *rest;

        if (strncmp (group + at, PCT, strlen (PCT)) != 0)
            continue;
        rest = strchr (group + at + 1, '/');
        if (rest && strstr (rest, "/ranks/"))
            return group + at + 1;
    }
    return NULL;
}

/* Connect to a pct, which must be root's: anybody may take the name of one that
 * has ended. */
static int reach (const char *pct, char problem[REPORT_TEXT_BYTES])
{
    const struct timeval wait = { .tv_sec = FENCE_WAIT_S };
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t length = strcspn (pct, "/");
    struct ucred peer = { .uid = (uid_t) -1 };
    socklen_t size = sizeof (peer);
    int fd;

    if (length >= sizeof (address.sun_path))
        return say (problem, "the group has a strange name");
    memcpy (address.sun_path + 1, pct, length);
    fd = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return say (problem, strerror (errno));
    setsockopt (fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof (wait));
    setsockopt (fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof (wait));
    if (connect (fd, (struct sockaddr *) &address,
                 (socklen_t) (offsetof (struct sockaddr_un, sun_path)
                              + 1 + length)) != 0)
        say (problem, strerror (errno));
    else if (getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0
             || peer.uid != 0)
        say (problem, "the pct is not root's");
    else
        return fd;
    close (fd);
    return -1;
}

static int converse (int fd, const char *group, const char *denied,
                     char problem[REPORT_TEXT_BYTES])
{
    static char request[REQUEST_MAX_BYTES];
    char answer[REPORT_TEXT_BYTES];
    int length = snprintf (request, sizeof (request), "deny\n%s\n%s", group,
                           denied);
    ssize_t n;

    if (length >= (int) sizeof (request))
        return say (problem, "the request is too long");
    if (send (fd, request, (size_t) length, MSG_NOSIGNAL) != length)
        return say (problem, strerror (errno));
    n = recv (fd, answer, sizeof (answer) - 1, 0);
    if (n <= 0)
        return say (problem, n < 0 ? strerror (errno) : "no answer");
    answer[n] = 0;
    return strcmp (answer, "done") == 0 ? 0 : say (problem, answer);
}

int fence_ask (const char *group, const char *denied,
               char problem[REPORT_TEXT_BYTES])
{
    const char *pct = group + strlen (group);

    say (problem, "it is in no job of root's pct");
    while ((pct = fence_pct (group, pct)) != NULL) {
        int fd = reach (pct, problem), result;

        if (fd < 0)
            continue;
        result = converse (fd, strchr (pct, '/') + 1, denied, problem);
        close (fd);
        if (result == 0)
            return 0;
    }
    return -1;
}
