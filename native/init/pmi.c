#include "pmi.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fds.h"
#include "lines.h"
#include "relay.h"

#define WELCOME_LINES 4                 /* the answer to initack */

static struct {
    int down, up, server;               /* -1: closed, or not yet open */
    bool is_stale;                      /* what comes up was for another server */
    bool has_hung_up;                   /* the server has */
    int unwelcomed;                     /* lines that the rank does not hear */
    struct lines from_rank, from_server;
} pmi = { .down = -1, .up = -1, .server = -1 };

bool pmi_is_offered (void)
{
    return getenv ("PMI_PORT") || getenv ("PMI_FD");
}

/* A socket that was given may lie where ours are to be. */
static void move_given (void)
{
    const char *given = getenv ("PMI_FD");
    char number[16];

    if (!given)
        return;
    snprintf (number, sizeof (number), "%d", fds_above (atoi (given)));
    setenv ("PMI_FD", number, 1);
}

int pmi_open (int down, int up, int theirs[2])
{
    int to[2], from[2];

    move_given ();
    if (pipe2 (to, O_CLOEXEC) != 0 || pipe2 (from, O_CLOEXEC) != 0)
        return -1;
    pmi.down = down;
    pmi.up = up;
    theirs[0] = fds_above (to[0]);
    theirs[1] = fds_above (from[1]);
    return theirs[0] < 0 || theirs[1] < 0 || fds_put (to[1], down) != 0
           || fds_put (from[0], up) != 0 ? -1 : 0;
}

void pmi_is_another (void)
{
    pmi.is_stale = true;
    lines_write (pmi.down, RELAY_ANEW, strlen (RELAY_ANEW));
}

static void hang_up (void)
{
    if (pmi.server >= 0)
        close (pmi.server);
    pmi.server = -1;
}

static void server_is_gone (void)
{
    hang_up ();
    pmi.has_hung_up = true;
    lines_write (pmi.down, RELAY_GONE, strlen (RELAY_GONE));
}

/* HOST:PORT, where the host is an address. */
static int connect_to (const char *place)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    const char *colon = strrchr (place, ':');
    char host[64];
    int fd;

    if (!colon)
        return -1;
    snprintf (host, sizeof (host), "%.*s", (int) (colon - place), place);
    address.sin_port = htons ((uint16_t) atoi (colon + 1));
    if (inet_pton (AF_INET, host, &address.sin_addr) != 1)
        return -1;
    fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect (fd, (struct sockaddr *) &address, sizeof (address)) != 0) {
        close (fd);
        fd = -1;
    }
    return fd;
}

/* When the rank says its first word: many say none. */
static bool is_connected (void)
{
    const char *place = getenv ("PMI_PORT"), *given = getenv ("PMI_FD");
    const char *id = getenv ("PMI_ID");
    char line[64];
    int n;

    if (pmi.server >= 0 || pmi.has_hung_up)
        return pmi.server >= 0;
    if (given) {
        pmi.server = atoi (given);
        return true;
    }
    pmi.server = connect_to (place ? place : "");
    if (pmi.server < 0) {
        server_is_gone ();
        return false;
    }
    n = snprintf (line, sizeof (line), "cmd=initack pmiid=%s\n", id ? id : "0");
    pmi.unwelcomed = WELCOME_LINES;
    lines_write (pmi.server, line, (size_t) n);
    return true;
}

static void rank_says (const char *line, size_t n)
{
    if (strcmp (line, RELAY_ANEW) == 0)
        pmi.is_stale = false;
    else if (pmi.is_stale)
        return;
    else if (strcmp (line, RELAY_GONE) == 0)
        hang_up ();
    else if (is_connected ())
        lines_write (pmi.server, line, n);
}

void pmi_poll (struct pollfd fds[PMI_POLLED])
{
    fds[0] = (struct pollfd) { .fd = pmi.up, .events = POLLIN };
    fds[1] = (struct pollfd) { .fd = pmi.server, .events = POLLIN };
}

void pmi_carry (const struct pollfd fds[PMI_POLLED])
{
    char *line;
    size_t n;

    if (fds[1].fd >= 0 && fds[1].revents) {
        if (!lines_read (&pmi.from_server, pmi.server))
            server_is_gone ();
        while ((line = lines_next (&pmi.from_server, &n)))
            if (pmi.unwelcomed > 0)
                pmi.unwelcomed--;
            else
                lines_write (pmi.down, line, n);
    }
    if (fds[0].fd >= 0 && fds[0].revents) {
        if (!lines_read (&pmi.from_rank, pmi.up)) {
            pmi.up = -1;                /* the rank has ended; so does this, soon */
            return;
        }
        while ((line = lines_next (&pmi.from_rank, &n)))
            rank_says (line, n);
    }
}
