#include "ptl_near.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ptl_address.h"
#include "ptl_auth.h"
#include "ptl_conn.h"
#include "ptl_wake.h"

#define MOVES_UNSHARED 8 /* reads and writes before memory is shared */

/* ---- reaching ---- */

int ptl_near_dial (const struct ptl_end *end, uint32_t nid, uint32_t pid,
                   int *fd)
{
    struct sockaddr_storage address = { 0 };
    socklen_t length = ptl_address_near (nid, pid, &address);
    int error = 0;

    if (!end->config.is_local || length == 0)
        return ENOENT;
    *fd = socket (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return errno;
    if (connect (*fd, (const struct sockaddr *)&address, length) < 0)
        error = errno;
    else if (!ptl_shm_is_same_user (*fd, geteuid ()))
        error = EPERM; /* anybody can take a name */
    if (error)
        close (*fd);
    return error;
}

bool ptl_near_takes_keyless (const struct ptl_end *end)
{
    return !end->config.needs_key && ptl_auth_is_keyless (&end->default_key);
}

bool ptl_near_is_own_user (const struct ptl_conn *conn)
{
    return conn->is_near && ptl_shm_is_same_user (conn->source.fd, geteuid ());
}

/* Shared memory takes three more descriptors for each peer. When a quarter of
 * them is in use (the system gives the lowest that is free) the rest is kept
 * for sockets. */
static bool has_descriptors (const struct ptl_conn *conn)
{
    struct rlimit limit;

    return getrlimit (RLIMIT_NOFILE, &limit) == 0
        && (rlim_t)conn->source.fd < limit.rlim_cur / 4;
}

bool ptl_near_offers (const struct ptl_conn *conn)
{
    return !conn->end->config.no_memory && has_descriptors (conn)
        && ptl_near_is_own_user (conn);
}

bool ptl_near_is_in (const struct ptl_conn *conn)
{
    return conn->near && conn->near->is_in;
}

bool ptl_near_is_out (const struct ptl_conn *conn)
{
    return conn->near && conn->near->is_out;
}

unsigned ptl_near_descriptors (const struct ptl_conn *conn)
{
    unsigned n = 0;

    for (int i = 0; conn->near && i < PTL_SHM_FDS; i++)
        n += conn->near->shm.memory && conn->near->shm.fds[i] >= 0;
    return n;
}

bool ptl_near_is_settled (const struct ptl_conn *conn)
{
    const struct ptl_near *near = conn->near;

    return !near
        || (!near->owed && near->is_in == near->is_out
            && near->said != PTL_MEMORY_OFFER && near->fds.n == 0);
}

/* ---- making and ending ---- */

static struct ptl_near *begin (struct ptl_conn *conn)
{
    struct ptl_near *near = calloc (1, sizeof (*near));

    if (!near)
        return NULL;
    near->source = (struct ptl_source){ PTL_SOURCE_NEAR, -1 };
    near->conn = conn;
    ptl_list_init (&near->node);
    conn->near = near;
    return near;
}

/* The rings are there: watch for wake-ups. */
static bool watch (struct ptl_near *near)
{
    struct ptl_end *end = near->conn->end;
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = near };

    near->source.fd = ptl_shm_own_fd (&near->shm);
    if (epoll_ctl (end->epoll_fd, EPOLL_CTL_ADD, near->source.fd, &event) < 0)
        return false;
    ptl_list_append (&end->nears, &near->node);
    return true;
}

void ptl_near_close (struct ptl_conn *conn)
{
    struct ptl_near *near = conn->near;

    conn->shares = false;
    if (!near)
        return;
    near->owed = 0;
    near->is_in = near->is_out = false;
    ptl_list_remove (&near->node);
    ptl_shm_drop (&near->fds);
    if (!near->shm.memory)
        return;
    /* The other end keeps the eventfd open, so closing does not remove it. */
    epoll_ctl (conn->end->epoll_fd, EPOLL_CTL_DEL, near->source.fd, NULL);
    near->source.fd = -1;
    ptl_shm_free (&near->shm);
}

void ptl_near_free (struct ptl_conn *conn)
{
    ptl_near_close (conn);
    free (conn->near);
    conn->near = NULL;
}

/* ---- switching over ---- */

static void owe (struct ptl_near *near, enum ptl_memory_step step)
{
    near->owed = (uint8_t)step;
    near->done = 0;
    ptl_conn_kick (near->conn);
}

/* If the system refuses the memory, go on without it. */
static void offer (struct ptl_conn *conn)
{
    struct ptl_near *near = begin (conn);

    if (near && ptl_shm_make (&near->shm, PTL_SHM_RING_BYTES) == 0
        && watch (near))
        owe (near, PTL_MEMORY_OFFER);
    else
        ptl_near_close (conn);
}

static void note_traffic (struct ptl_conn *conn)
{
    if (!conn->is_dialled && !conn->near
        && conn->state == PTL_CONN_READY && ++conn->n_moves >= MOVES_UNSHARED)
        offer (conn);
}

static bool take_offer (struct ptl_conn *conn, uint64_t ring_bytes)
{
    struct ptl_near *near = conn->near;

    if (!conn->is_dialled || !near || near->owed || near->said)
        return false;
    if (ring_bytes <= PTL_SHM_RING_MAX
        && ptl_shm_take (&near->shm, &near->fds, (size_t)ring_bytes) == 0
        && watch (near)) {
        owe (near, PTL_MEMORY_TAKEN);
        return true;
    }
    ptl_near_close (conn);
    owe (near, PTL_MEMORY_REFUSED);
    return true;
}

/* From now on frames come through the ring. A thread that already sleeps has
 * not asked the writer to wake it: do that now. */
static void begin_ring (struct ptl_near *near)
{
    struct ptl_end *end = near->conn->end;

    near->is_in = true;
    if (end->hot == near->conn)
        end->hot = NULL;
    if (ptl_wake_is_needed (end))
        ptl_wake_arm (near);
}

bool ptl_near_take (struct ptl_conn *conn, const struct ptl_frame *frame)
{
    struct ptl_near *near = conn->near;
    bool is_answer = !conn->is_dialled && near && !near->owed
        && near->said == PTL_MEMORY_OFFER;

    switch (frame->detail) {
    case PTL_MEMORY_OFFER:
        return take_offer (conn, frame->total);
    case PTL_MEMORY_TAKEN:
        if (!is_answer)
            return false;
        begin_ring (near);
        owe (near, PTL_MEMORY_SWITCH);
        return true;
    case PTL_MEMORY_REFUSED:
        if (!is_answer)
            return false;
        near->said = PTL_MEMORY_REFUSED; /* once */
        ptl_near_close (conn);
        return true;
    case PTL_MEMORY_SWITCH:
        if (!conn->is_dialled || !near || !near->is_out || near->is_in)
            return false;
        begin_ring (near);
        return true;
    default:
        return false;
    }
}

bool ptl_near_owes (const struct ptl_conn *conn)
{
    return conn->near && conn->near->owed;
}

/* Nothing more is written to the socket: stop waiting for room in it. */
static void leave_socket (struct ptl_conn *conn)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = conn };

    conn->near->is_out = true;
    if (conn->wants_out)
        epoll_ctl (conn->end->epoll_fd, EPOLL_CTL_MOD, conn->source.fd,
                   &event);
    conn->wants_out = false;
}

static void paid (struct ptl_near *near)
{
    near->said = near->owed;
    near->owed = 0;
    if (near->said == PTL_MEMORY_OFFER)
        ptl_shm_given (&near->shm);
    else if (near->said != PTL_MEMORY_REFUSED)
        leave_socket (near->conn);
}

ssize_t ptl_near_pay (struct ptl_conn *conn, size_t *wanted)
{
    struct ptl_near *near = conn->near;
    struct ptl_frame frame = {
        .type = PTL_FRAME_MEMORY,
        .detail = near->owed,
        .incarnation = (uint32_t)conn->end->incarnation,
        .total = near->owed == PTL_MEMORY_OFFER ? PTL_SHM_RING_BYTES : 0,
    };
    uint8_t header[PTL_HEADER_BYTES];
    ssize_t n;

    ptl_wire_encode (&frame, header);
    *wanted = sizeof (header) - near->done;
    if (near->owed == PTL_MEMORY_OFFER && near->done == 0)
        n = ptl_shm_give (&near->shm, conn->source.fd, header, *wanted);
    else
        do
            n = send (conn->source.fd, header + near->done, *wanted,
                      MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
    if (n > 0)
        near->done += (unsigned)n;
    if (near->done == sizeof (header))
        paid (near);
    return n;
}

/* ---- bytes ---- */

static ssize_t result (const struct ptl_ring *ring, size_t n)
{
    if (n > 0)
        return (ssize_t)n;
    errno = ring->is_broken ? EPROTO : EAGAIN;
    return -1;
}

static ssize_t read_ring (struct ptl_near *near, const struct iovec *parts,
                          int count)
{
    size_t n = ptl_ring_read (&near->shm.in, parts, count);

    if (n > 0 && ptl_ring_wakes_writer (&near->shm.in))
        ptl_shm_wake (&near->shm);
    return result (&near->shm.in, n);
}

static void keep (struct ptl_conn *conn, struct ptl_shm_fds *fds)
{
    if (!conn->near && begin (conn))
        conn->near->fds = *fds;
    else
        ptl_shm_drop (fds); /* the offer will be refused as incomplete */
}

ssize_t ptl_near_receive (struct ptl_conn *conn, struct iovec *parts,
                          int count)
{
    struct ptl_shm_fds fds = { .n = 0 };
    ssize_t n;

    if (ptl_near_is_in (conn))
        return read_ring (conn->near, parts, count);
    n = ptl_shm_receive (conn->source.fd, parts, count, &fds);
    if (n > 0 && (fds.n > 0 || fds.is_bad))
        keep (conn, &fds);
    if (n > 0)
        note_traffic (conn);
    return n;
}

void ptl_near_await_room (struct ptl_conn *conn)
{
    struct ptl_near *near = conn->near;

    if (ptl_wake_is_needed (conn->end)
        && !ptl_ring_writer_sleeps (&near->shm.out))
        ptl_shm_wake_self (&near->shm);
}

static ssize_t write_ring (struct ptl_near *near, const struct iovec *parts,
                           int count)
{
    size_t wanted = 0, n = ptl_ring_write (&near->shm.out, parts, count);

    for (int i = 0; i < count; i++)
        wanted += parts[i].iov_len;
    if (n > 0 && ptl_ring_wakes_reader (&near->shm.out))
        ptl_shm_wake (&near->shm);
    if (n < wanted)
        ptl_near_await_room (near->conn);
    return result (&near->shm.out, n);
}

ssize_t ptl_near_send (struct ptl_conn *conn, struct iovec *parts, int count)
{
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = (size_t)count };
    ssize_t n;

    if (ptl_near_is_out (conn))
        return write_ring (conn->near, parts, count);
    do
        n = sendmsg (conn->source.fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        note_traffic (conn);
    return n;
}

bool ptl_near_hung_up (const struct ptl_conn *conn)
{
    char byte;
    ssize_t n;

    do
        n = recv (conn->source.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}
