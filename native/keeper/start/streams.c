#include "streams.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../spec.h"

#define LISTEN_BACKLOG 4096

static void drop (int *fd)
{
    if (*fd >= 0)
        close (*fd);
    *fd = -1;
}

void streams_close_outputs (struct streams *streams)
{
    drop (&streams->theirs[1]);
    drop (&streams->theirs[2]);
}

void streams_close_others (struct streams *streams)
{
    drop (&streams->theirs[0]);
    drop (&streams->theirs[3]);
    drop (&streams->listener);
}

void streams_close (struct streams *streams)
{
    for (int i = 0; i < 4; i++)
        drop (&streams->ours[i]);
    streams_close_outputs (streams);
    streams_close_others (streams);
}

/* Our end of a rank's pipe does not block; the rank's own end does. */
static int make_pipe (struct streams *streams, int i, int our_end)
{
    int ends[2];

    if (pipe2 (ends, O_CLOEXEC) != 0)
        return -1;
    streams->ours[i] = ends[our_end];
    streams->theirs[i] = ends[!our_end];
    return fcntl (ends[our_end], F_SETFL, O_NONBLOCK);
}

static int bind_to (int fd, uint32_t nid)
{
    struct sockaddr_in at = { .sin_family = AF_INET };

    at.sin_addr.s_addr = htonl (nid);
    return bind (fd, (struct sockaddr *) &at, sizeof (at));
}

/* Listen at any free port of the node's address; of all addresses where this
 * host does not know that one as its own (it is translated on the way). */
static int make_listener (struct streams *streams, uint32_t nid)
{
    struct sockaddr_in at;
    socklen_t length = sizeof (at);
    int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if ((streams->listener = fd) < 0)
        return -1;
    if (bind_to (fd, nid) != 0
        && (errno != EADDRNOTAVAIL || bind_to (fd, INADDR_ANY) != 0))
        return -1;
    if (listen (fd, LISTEN_BACKLOG) != 0
        || getsockname (fd, (struct sockaddr *) &at, &length) != 0)
        return -1;
    streams->port = ntohs (at.sin_port);
    return 0;
}

static int make_pmi (struct streams *streams)
{
    int ends[2];

    if (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    streams->ours[3] = ends[0];
    streams->theirs[3] = ends[1];
    return fcntl (ends[0], F_SETFL, O_NONBLOCK);
}

bool streams_make (struct streams *streams, uint32_t flags, uint32_t nid)
{
    int error;

    memset (streams, 0xff, sizeof (*streams));
    streams->port = 0;
    if ((!(flags & RANK_WANTS_PORTALS) || make_listener (streams, nid) == 0)
        && (!(flags & RANK_WANTS_STDIN) || make_pipe (streams, 0, 1) == 0)
        && make_pipe (streams, 1, 0) == 0 && make_pipe (streams, 2, 0) == 0
        && (!(flags & RANK_WANTS_PMI) || make_pmi (streams) == 0))
        return true;
    error = errno;
    streams_close (streams);
    errno = error;
    return false;
}

bool streams_join_terminal (struct streams *streams, struct terminal *terminal,
                            size_t index, uint32_t window)
{
    if (!terminal_open (terminal, window)
        || fcntl (streams->theirs[0], F_SETFL, O_NONBLOCK) != 0
        || fcntl (streams->theirs[1], F_SETFL, O_NONBLOCK) != 0)
        return false;
    terminal->index = index;
    terminal->input = streams->theirs[0];
    terminal->output = streams->theirs[1];
    streams->theirs[0] = streams->theirs[1] = -1;
    return true;
}
