#include "ptl_conn.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ptl_address.h"
#include "ptl_alive.h"
#include "ptl_answer.h"
#include "ptl_auth.h"
#include "ptl_in.h"
#include "ptl_near.h"
#include "ptl_out.h"
#include "ptl_peer.h"
#include "ptl_room.h"
#include "ptl_seal.h"
#include "ptl_share.h"
#include "ptl_shake.h"

#define DRAIN_MS 2000           /* wait for the end of the peer's stream */
#define STALLED_BYTES_S 1024    /* of an operation; slower is at a standstill */
#define UNIX_SEND_BYTES 212992  /* the kernel doubles it */
#define NOT_SENT_BYTES 1048576  /* what the kernel may queue before control */

static void set_option (int fd, int level, int name, int value)
{
    /* A failure is ignored: the connection works without the option. */
    (void)!setsockopt (fd, level, name, &value, sizeof (value));
}

static void tune (const struct ptl_end *end, int fd)
{
    set_option (fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option (fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, NOT_SENT_BYTES);
    ptl_alive_tune (end, fd);
}

struct ptl_conn *ptl_conn_alloc (struct ptl_end *end, int fd, bool is_dialled,
                                 bool is_unix)
{
    struct ptl_conn *conn = calloc (1, sizeof (*conn));
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = conn };

    if (!conn) {
        close (fd);
        return NULL;
    }
    conn->source = (struct ptl_source){ PTL_SOURCE_CONN, fd };
    conn->end = end;
    conn->is_dialled = is_dialled;
    conn->is_unix = is_unix;
    conn->who.serial = ++end->serial;
    ptl_list_init (&conn->dirty);
    if (is_dialled) {
        event.events |= EPOLLOUT;
        conn->wants_out = true;
    }
    if (is_unix)
        set_option (fd, SOL_SOCKET, SO_SNDBUF, UNIX_SEND_BYTES);
    else
        tune (end, fd);
    if (epoll_ctl (end->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        close (fd);
        free (conn);
        return NULL;
    }
    ptl_list_append (&end->conns, &conn->all);
    return conn;
}

static const struct ptlx_key *key_for (struct ptl_end *end, uint32_t nid,
                                       uint32_t pid)
{
    struct ptl_target *t;

    for (struct ptl_node *n = end->targets.next; n != &end->targets;
         n = n->next) {
        t = ptl_entry (n, struct ptl_target, node);
        if (t->nid == nid && t->pid == pid)
            return &t->key;
    }
    return &end->default_key;
}

static int open_socket (const struct sockaddr_storage *address,
                        socklen_t length, int *fdp)
{
    int fd = socket (address->ss_family,
                     SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return errno;
    if (connect (fd, (const struct sockaddr *)address, length) < 0
        && errno != EINPROGRESS) {
        int error = errno;

        close (fd);
        return error;
    }
    *fdp = fd;
    return 0;
}

int ptl_conn_dial (struct ptl_peer *peer)
{
    struct ptl_end *end = peer->end;
    struct sockaddr_storage address = { 0 };
    socklen_t length
        = ptl_address_find (end, peer->nid, peer->pid, &address);
    struct ptlx_key key = *key_for (end, peer->nid, peer->pid);
    struct ptl_conn *conn;
    bool is_unix, is_near;
    int fd = -1, error;

    if (length == 0)
        return EHOSTUNREACH;
    error = end->config.needs_key && ptl_auth_is_keyless (&key)
                ? ENOKEY
                : ptl_near_dial (end, peer->nid, peer->pid, &fd);
    if (error == EAGAIN || error == EMFILE || error == ENFILE)
        return error; /* the listener may exist all the same */
    is_near = error == 0;
    is_unix = is_near || address.ss_family == AF_UNIX;
    if (key.kind == PTLX_KEY_NONE && is_unix)
        key.kind = PTLX_KEY_LOCAL;
    if (!is_unix && ptl_auth_is_keyless (&key))
        return ENOKEY;
    if (!is_near && (error = open_socket (&address, length, &fd)) != 0)
        return error;
    if (!(conn = ptl_conn_alloc (end, fd, true, is_unix)))
        return ENOMEM;
    conn->is_near = is_near;
    conn->state = PTL_CONN_CONNECTING;
    conn->deadline_ms = peer->dial_until_ms;
    ptl_conn_due (conn, conn->deadline_ms);
    conn->who.nid = peer->nid;
    conn->who.pid = peer->pid;
    conn->peer = peer;
    peer->dial = conn;
    if (!ptl_shake_dial (conn, &key,
                         peer->pid == PTL_PID_ANY ? PTL_NID_ANY : peer->nid,
                         peer->pid)) {
        peer->dial = NULL;
        conn->peer = NULL;
        ptl_conn_close (conn);
        return ENOMEM;
    }
    return 0;
}

/* A connect that was in progress has succeeded or failed. */
static void connected (struct ptl_conn *conn)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = conn };
    int error = 0;
    socklen_t size = sizeof (error);

    getsockopt (conn->source.fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) {
        ptl_conn_fail (conn, PTLX_LOSS_UNREACHABLE, error);
        return;
    }
    conn->wants_out = false;
    epoll_ctl (conn->end->epoll_fd, EPOLL_CTL_MOD, conn->source.fd, &event);
    ptl_shake_connected (conn);
}

void ptl_conn_look (struct ptl_conn *conn)
{
    struct pollfd out = { .fd = conn->source.fd, .events = POLLOUT };

    if (poll (&out, 1, 0) > 0)
        ptl_conn_ready (conn, EPOLLOUT);
}

/* Frames come from a ring; the socket only tells that the peer hung up. */
static void look_at_socket (struct ptl_conn *conn)
{
    if (!ptl_near_hung_up (conn))
        return;
    ptl_in_read_all (conn);
    ptl_conn_fail (conn, PTLX_LOSS_DIED, 0);
}

void ptl_conn_ready (struct ptl_conn *conn, uint32_t events)
{
    switch (conn->state) {
    case PTL_CONN_CONNECTING:
        connected (conn);
        break;
    case PTL_CONN_SHAKING:
        ptl_shake_read (conn);
        break;
    case PTL_CONN_READY:
    case PTL_CONN_DRAINING:
        if (events & EPOLLOUT)
            ptl_out_flush (conn);
        if (!(events & ~(uint32_t)EPOLLOUT))
            break;
        if (ptl_near_is_in (conn))
            look_at_socket (conn);
        else
            ptl_in_read (conn);
        break;
    case PTL_CONN_DEAD:
        break;
    }
}

void ptl_conn_kick (struct ptl_conn *conn)
{
    if (!conn->wants_out && ptl_list_empty (&conn->dirty)
        && conn->state != PTL_CONN_DEAD)
        ptl_list_append (&conn->end->dirty, &conn->dirty);
}

static void end_arrivals (struct ptl_conn *conn)
{
    if (conn->rx && conn->rx == &conn->single)
        conn->end->above->finish (&conn->who, conn->rx, PTL_NI_UNDELIVERABLE);
    for (int i = 0; conn->open && i < PTL_OPEN_MAX; i++)
        if (conn->open[i].is_open)
            conn->end->above->finish (&conn->who, &conn->open[i],
                                      PTL_NI_UNDELIVERABLE);
    conn->rx = NULL;
    conn->reply = NULL;
}

static bool lands_at (const struct ptl_rx *rx, const struct ptl_ni *ni,
                      unsigned index)
{
    return rx->me && rx->ni == ni && rx->pt_index == index;
}

bool ptl_conn_lands_at (const struct ptl_conn *conn, const struct ptl_ni *ni,
                        unsigned index)
{
    bool found = lands_at (&conn->single, ni, index);

    for (int i = 0; conn->open && i < PTL_OPEN_MAX; i++)
        found = found || lands_at (&conn->open[i], ni, index);
    return found;
}

static void forget_ni (struct ptl_rx *rx, const struct ptl_ni *ni)
{
    if (!rx->me || rx->ni != ni)
        return;
    rx->me = NULL; /* the rest is thrown away */
    rx->mlength = 0;
    rx->fail = PTL_NI_DROPPED;
}

void ptl_conn_forget_ni (struct ptl_conn *conn, const struct ptl_ni *ni)
{
    forget_ni (&conn->single, ni);
    for (int i = 0; conn->open && i < PTL_OPEN_MAX; i++)
        forget_ni (&conn->open[i], ni);
}

void ptl_conn_close (struct ptl_conn *conn)
{
    if (conn->state == PTL_CONN_DEAD)
        return;
    if (conn->end->room > 0 && conn->state >= PTL_CONN_READY) {
        /* Not when a dial was given up: its descriptor is used by another
         * dial. */
        conn->end->has_freed = true;
        ptl_end_wake_at (conn->end, conn->end->now_ms);
    }
    conn->state = PTL_CONN_DEAD;
    conn->peer = NULL;
    ptl_shake_free (conn);
    if (conn->share)
        ptl_share_leave (conn->share);
    conn->share = NULL;
    ptl_near_close (conn);
    end_arrivals (conn);
    close (conn->source.fd); /* leaves the epoll set with it */
    conn->source.fd = -1;
    if (conn->end->hot == conn)
        conn->end->hot = NULL;
    ptl_dues_remove (&conn->end->conn_dues, &conn->due);
    ptl_list_remove (&conn->dirty);
    ptl_list_remove (&conn->all);
    ptl_list_append (&conn->end->grave, &conn->all);
}

void ptl_conn_fail (struct ptl_conn *conn, uint32_t loss, int detail)
{
    struct ptl_peer *peer = conn->peer;

    if (conn->state == PTL_CONN_DEAD)
        return;
    if (peer && (peer->conn == conn || peer->dial == conn))
        ptl_peer_lost (peer, loss, detail);
    else
        ptl_conn_close (conn);
}

void ptl_conn_free (struct ptl_conn *conn)
{
    ptl_list_remove (&conn->all);
    ptl_near_free (conn);
    free (conn->open);
    ptl_seal_free (conn->seal);
    free (conn->gather);
    free (conn->small);
    free (conn->pending);
    free (conn);
}

void ptl_conn_leave (struct ptl_conn *conn)
{
    struct ptl_frame bye = { .type = PTL_FRAME_BYE };

    conn->peer = NULL; /* which is freed even if the goodbye cannot be sent */
    ptl_answer_send (conn, &bye);
    if (conn->state == PTL_CONN_DEAD)
        return;
    conn->state = PTL_CONN_DRAINING;
    conn->deadline_ms = conn->end->now_ms + DRAIN_MS;
    ptl_conn_due (conn, conn->deadline_ms);
    end_arrivals (conn);
}

ssize_t ptl_conn_receive (struct ptl_conn *conn, struct iovec *parts,
                          int count)
{
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = (size_t)count };
    ssize_t n;

    if (conn->shares)
        return ptl_near_receive (conn, parts, count);
    do
        n = count == 1 ? recv (conn->source.fd, parts->iov_base,
                               parts->iov_len, 0)
                       : recvmsg (conn->source.fd, &message, 0);
    while (n < 0 && errno == EINTR);
    return n;
}

ssize_t ptl_conn_send (struct ptl_conn *conn, struct iovec *parts, int count)
{
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = (size_t)count };
    ssize_t n;

    if (conn->shares)
        return ptl_near_send (conn, parts, count);
    do
        n = count == 1 ? send (conn->source.fd, parts->iov_base,
                               parts->iov_len, MSG_NOSIGNAL)
                       : sendmsg (conn->source.fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    conn->written += n > 0 ? n : 0;
    return n;
}

bool ptl_conn_is_flushed (const struct ptl_conn *conn)
{
    int queued = 0;

    if (conn->small_length > 0 || conn->pending)
        return false;
    return conn->is_unix || ioctl (conn->source.fd, SIOCOUTQ, &queued) < 0
        || queued == 0;
}

/* This operation reserves space in an event queue, is older than liveness_ms
 * and brings almost no bytes. */
static bool is_stalled (const struct ptl_conn *conn, const struct ptl_rx *rx)
{
    int64_t age = ptl_end_own_ms (conn->end) - rx->begun_ms;

    return rx->me && rx->promised > 0 && age > conn->end->config.liveness_ms
        && rx->received < (uint64_t)age * STALLED_BYTES_S / 1000;
}

static bool has_stalled (const struct ptl_conn *conn)
{
    bool found = is_stalled (conn, &conn->single);

    for (int i = 0; conn->open && i < PTL_OPEN_MAX; i++)
        found = found || is_stalled (conn, &conn->open[i]);
    return found;
}

/* A peer that holds queue space and sends nothing is dropped when the queue is
 * full for others. Bytes that wait in the socket were sent in time (we may have
 * been slow), so they are read first. */
static bool starves_others (struct ptl_conn *conn)
{
    if (conn->state != PTL_CONN_READY || !has_stalled (conn))
        return false;
    ptl_in_read_all (conn);
    return conn->state == PTL_CONN_READY && has_stalled (conn);
}

void ptl_conn_due (struct ptl_conn *conn, int64_t at_ms)
{
    struct ptl_end *end = conn->end;

    ptl_dues_put (&end->conn_dues, &conn->due, ptl_end_later (end, at_ms));
    ptl_end_wake_at (end, ptl_dues_next (&end->conn_dues));
}

void ptl_conn_tick (struct ptl_conn *conn)
{
    int64_t now = conn->end->now_ms;

    if (conn->end->is_starved && starves_others (conn))
        ptl_conn_fail (conn, PTLX_LOSS_DIED, ETIMEDOUT);
    if (conn->state == PTL_CONN_DEAD)
        return;
    if (conn->deadline_ms && now >= conn->deadline_ms) {
        ptl_conn_fail (conn, PTLX_LOSS_UNREACHABLE, ETIMEDOUT);
        return;
    }
    if (conn->deadline_ms)
        ptl_conn_due (conn, conn->deadline_ms);
    if (conn->ack_ms)
        ptl_answer_tick (conn);
    if (conn->state == PTL_CONN_READY)
        ptl_alive_tick (conn);
    if (conn->state == PTL_CONN_READY)
        ptl_room_look (conn);
}
