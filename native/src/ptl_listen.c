#include "ptl_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "ptl_conn.h"
#include "ptl_shake.h"

#define BACKLOG 4096
#define ACCEPT_BATCH 64
#define ACCEPT_REST_MS 100 /* when descriptors have run out */

static int rc_of_errno (void)
{
    return errno == EADDRINUSE ? PTL_PID_IN_USE : PTL_FAIL;
}

int ptl_listen_tcp (struct ptl_ni *ni)
{
    const struct ptlx_config *c = &ni->config;
    struct sockaddr_in in = { .sin_family = AF_INET };
    socklen_t size = sizeof (in);
    int fd = socket (AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int one = 1;

    ni->tcp.fd = fd;
    if (fd < 0)
        return PTL_FAIL;
    in.sin_addr.s_addr = htonl (c->listen_nid);
    in.sin_port = htons ((uint16_t)c->listen_pid);
    setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof (one));
    if (bind (fd, (struct sockaddr *)&in, sizeof (in)) < 0
        || listen (fd, BACKLOG) < 0
        || getsockname (fd, (struct sockaddr *)&in, &size) < 0)
        return rc_of_errno ();
    ni->self.nid = c->advertise_nid ? c->advertise_nid
                                    : ntohl (in.sin_addr.s_addr);
    ni->self.pid = ntohs (in.sin_port);
    return ptl_ni_watch (ni, &ni->tcp, PTL_SOURCE_TCP);
}

/* A path that nobody listens at is left over from a dead process. */
static bool is_left_over (const struct sockaddr_un *un)
{
    int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool refused = connect (fd, (const struct sockaddr *)un, sizeof (*un)) < 0
        && errno == ECONNREFUSED;

    close (fd);
    return refused;
}

static int bind_unix (int fd, const struct sockaddr_un *un)
{
    const struct sockaddr *address = (const struct sockaddr *)un;

    if (bind (fd, address, sizeof (*un)) == 0)
        return 0;
    if (errno != EADDRINUSE)
        return -1;
    if (!is_left_over (un)) {
        errno = EADDRINUSE;
        return -1;
    }
    unlink (un->sun_path);
    return bind (fd, address, sizeof (*un));
}

int ptl_listen_unix (struct ptl_ni *ni)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    char *path = ni->unix_path;
    int fd;

    ni->unix_path = NULL; /* ours to remove only once it is bound */
    if (strlen (path) >= sizeof (un.sun_path)) {
        free (path);
        return PTL_ARG_INVALID;
    }
    strcpy (un.sun_path, path);
    fd = ni->local.fd
        = socket (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind_unix (fd, &un) < 0) {
        free (path);
        return rc_of_errno ();
    }
    ni->unix_path = path;
    /* Who connects is proven by credentials, not by the file's mode. */
    (void)chmod (path, 0666);
    if (listen (fd, BACKLOG) < 0)
        return rc_of_errno ();
    return ptl_ni_watch (ni, &ni->local, PTL_SOURCE_UNIX);
}

static void rest (struct ptl_ni *ni)
{
    struct epoll_event none = { 0 };
    struct ptl_source *sources[] = { &ni->tcp, &ni->local };

    for (int i = 0; i < 2; i++) {
        none.data.ptr = sources[i];
        if (sources[i]->fd >= 0)
            epoll_ctl (ni->epoll_fd, EPOLL_CTL_MOD, sources[i]->fd, &none);
    }
    ni->accept_ms = ni->now_ms + ACCEPT_REST_MS;
    ptl_ni_wake_at (ni, ni->accept_ms);
}

static void admit (struct ptl_ni *ni, int fd, bool is_unix)
{
    struct ptl_conn *conn;
    uint8_t m4[PTL_M4_BYTES];

    if (ni->n_unproven >= ni->config.max_unproven) {
        ptl_auth_put_m4 (NULL, PTL_CODE_FULL, ni->config.version_min,
                         ni->config.version_max, m4);
        (void)!send (fd, m4, sizeof (m4), MSG_NOSIGNAL);
        close (fd);
        return;
    }
    if (!(conn = ptl_conn_alloc (ni, fd, false, is_unix)))
        return;
    conn->state = PTL_CONN_SHAKING;
    conn->deadline_ms = ni->now_ms + ni->config.handshake_timeout_ms;
    ptl_ni_wake_at (ni, conn->deadline_ms);
    if (!ptl_shake_listen (conn))
        ptl_conn_close (conn);
}

void ptl_listen_accept (struct ptl_ni *ni, struct ptl_source *listener)
{
    int fd;

    for (int i = 0; i < ACCEPT_BATCH; i++) {
        fd = accept4 (listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            admit (ni, fd, listener->kind == PTL_SOURCE_UNIX);
        else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS
                 || errno == ENOMEM) {
            rest (ni);
            return;
        }
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return;
    }
}

void ptl_listen_again (struct ptl_ni *ni)
{
    struct epoll_event event = { .events = EPOLLIN };
    struct ptl_source *sources[] = { &ni->tcp, &ni->local };

    if (ni->accept_ms == 0)
        return;
    if (ni->now_ms < ni->accept_ms) {
        ptl_ni_wake_at (ni, ni->accept_ms);
        return;
    }
    ni->accept_ms = 0;
    for (int i = 0; i < 2; i++) {
        event.data.ptr = sources[i];
        if (sources[i]->fd >= 0)
            epoll_ctl (ni->epoll_fd, EPOLL_CTL_MOD, sources[i]->fd, &event);
    }
}

void ptl_listen_stop (struct ptl_ni *ni)
{
    struct ptl_source *sources[] = { &ni->tcp, &ni->local };

    for (int i = 0; i < 2; i++) {
        if (sources[i]->fd >= 0)
            close (sources[i]->fd);
        sources[i]->fd = -1;
    }
    if (ni->unix_path)
        unlink (ni->unix_path);
    free (ni->unix_path);
    ni->unix_path = NULL;
}
