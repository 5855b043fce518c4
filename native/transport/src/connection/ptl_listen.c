#include "ptl_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "ptl_address.h"
#include "ptl_conn.h"
#include "ptl_origin.h"
#include "ptl_room.h"
#include "ptl_shake.h"

#define BACKLOG 4096
#define ACCEPT_BATCH 64
#define LISTENERS 3
#define ACCEPT_REST_MS 100 /* when descriptors have run out */

static int rc_of_errno (void)
{
    return errno == EADDRINUSE ? PTL_PID_IN_USE : PTL_FAIL;
}

/* A new socket, or a duplicate of the one that we were given. */
static int listen_somewhere (const struct ptlx_config *c)
{
    struct sockaddr_in in = { .sin_family = AF_INET };
    int fd, one = 1;

    if (c->listen_fd > 0)
        return fcntl (c->listen_fd, F_DUPFD_CLOEXEC, 0);
    fd = socket (AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    in.sin_addr.s_addr = htonl (c->listen_nid);
    in.sin_port = htons ((uint16_t)c->listen_pid);
    setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof (one));
    if (bind (fd, (struct sockaddr *)&in, sizeof (in)) < 0
        || listen (fd, BACKLOG) < 0) {
        int error = errno;

        close (fd);
        errno = error;
        return -1;
    }
    return fd;
}

int ptl_listen_tcp (struct ptl_end *end)
{
    const struct ptlx_config *c = &end->config;
    struct sockaddr_in in = { .sin_family = AF_INET };
    socklen_t size = sizeof (in);

    end->tcp.fd = listen_somewhere (c);
    if (end->tcp.fd < 0
        || getsockname (end->tcp.fd, (struct sockaddr *)&in, &size) < 0)
        return rc_of_errno ();
    end->self.nid = c->advertise_nid ? c->advertise_nid
                                    : ntohl (in.sin_addr.s_addr);
    end->self.pid = ntohs (in.sin_port);
    return ptl_end_watch (end, &end->tcp, PTL_SOURCE_TCP);
}

/* Remove a socket path that a dead process has left behind. */
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

int ptl_listen_unix (struct ptl_end *end)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    char *path = end->unix_path;
    int fd;

    end->unix_path = NULL; /* removed by us only once it is bound */
    if (strlen (path) >= sizeof (un.sun_path)) {
        free (path);
        return PTL_ARG_INVALID;
    }
    strcpy (un.sun_path, path);
    fd = end->local.fd
        = socket (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind_unix (fd, &un) < 0) {
        free (path);
        return rc_of_errno ();
    }
    end->unix_path = path;
    /* Anyone may connect: peer credentials prove who it is, not the file
     * mode. */
    (void)chmod (path, 0666);
    if (listen (fd, BACKLOG) < 0)
        return rc_of_errno ();
    return ptl_end_watch (end, &end->local, PTL_SOURCE_UNIX);
}

void ptl_listen_near (struct ptl_end *end)
{
    struct sockaddr_storage address = { 0 };
    socklen_t length
        = ptl_address_near (end->self.nid, end->self.pid, &address);

    if (length == 0)
        return;
    end->near.fd
        = socket (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (end->near.fd >= 0
        && bind (end->near.fd, (struct sockaddr *)&address, length) == 0
        && listen (end->near.fd, BACKLOG) == 0
        && ptl_end_watch (end, &end->near, PTL_SOURCE_UNIX) == PTL_OK)
        return;
    if (end->near.fd >= 0)
        close (end->near.fd);
    end->near.fd = -1;
}

static void rest (struct ptl_end *end)
{
    struct epoll_event none = { 0 };
    struct ptl_source *sources[] = { &end->tcp, &end->local, &end->near };

    for (int i = 0; i < LISTENERS; i++) {
        none.data.ptr = sources[i];
        if (sources[i]->fd >= 0)
            epoll_ctl (end->epoll_fd, EPOLL_CTL_MOD, sources[i]->fd, &none);
    }
    end->accept_ms = end->now_ms
        + (ptl_room_make (end) ? PTL_ROOM_AGAIN_MS : ACCEPT_REST_MS);
    ptl_end_wake_at (end, end->accept_ms);
}

static void admit (struct ptl_end *end, int fd,
                   const struct ptl_source *listener)
{
    bool is_unix = listener->kind == PTL_SOURCE_UNIX;
    uint64_t origin = ptl_origin_of (fd, is_unix);
    enum ptl_code code = ptl_unproven_make_room (end, origin);
    struct ptl_conn *conn;

    if (code != PTL_CODE_READY) {
        ptl_shake_say_no (end, fd, code);
        close (fd);
        return;
    }
    if (!(conn = ptl_conn_alloc (end, fd, false, is_unix)))
        return;
    conn->is_near = listener == &end->near;
    conn->state = PTL_CONN_SHAKING;
    conn->deadline_ms = end->now_ms + end->config.handshake_timeout_ms;
    ptl_conn_due (conn, conn->deadline_ms);
    if (!ptl_shake_listen (conn, origin))
        ptl_conn_close (conn);
    else /* who dials from this host has said hello already */
        ptl_shake_read (conn);
}

void ptl_listen_accept (struct ptl_end *end, struct ptl_source *listener)
{
    int fd;

    for (int i = 0; i < ACCEPT_BATCH; i++) {
        fd = accept4 (listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            admit (end, fd, listener);
        else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS
                 || errno == ENOMEM) {
            rest (end);
            return;
        }
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return;
    }
}

void ptl_listen_again (struct ptl_end *end)
{
    struct epoll_event event = { .events = EPOLLIN };
    struct ptl_source *sources[] = { &end->tcp, &end->local, &end->near };

    if (end->accept_ms == 0)
        return;
    if (end->now_ms < end->accept_ms && !end->has_freed) {
        ptl_end_wake_at (end, end->accept_ms);
        return;
    }
    end->accept_ms = 0;
    for (int i = 0; i < LISTENERS; i++) {
        event.data.ptr = sources[i];
        if (sources[i]->fd >= 0)
            epoll_ctl (end->epoll_fd, EPOLL_CTL_MOD, sources[i]->fd, &event);
    }
}

void ptl_listen_stop (struct ptl_end *end)
{
    struct ptl_source *sources[] = { &end->tcp, &end->local, &end->near };

    for (int i = 0; i < LISTENERS; i++) {
        if (sources[i]->fd >= 0)
            close (sources[i]->fd);
        sources[i]->fd = -1;
    }
    if (end->unix_path)
        unlink (end->unix_path);
    free (end->unix_path);
    end->unix_path = NULL;
}
