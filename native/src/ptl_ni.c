#include "ptl_ni.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "ptl_conn.h"
#include "ptl_ct.h"
#include "ptl_eq.h"
#include "ptl_fwd.h"
#include "ptl_md.h"
#include "ptl_me.h"
#include "ptl_peer.h"

#define BACKLOG 4096
#define EPOLL_BATCH 64
#define HOLD_SELF_MS 1
#define FLUSH_LOOK_MS 5 /* the kernel does not tell when it has sent all */
#define LOOPBACK 0x7f000001u

int64_t ptl_clock_ns (void)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void look_at_clock (struct ptl_ni *ni)
{
    ni->now_ms = ptl_clock_ns () / 1000000;
}

/* ---- making ---- */

static uint32_t or_default (uint32_t value, uint32_t standard)
{
    return value ? value : standard;
}

static int configure (struct ptl_ni *ni, const struct ptlx_config *config)
{
    struct ptlx_config *c = &ni->config;

    *c = *config;
    c->connect_timeout_ms = or_default (c->connect_timeout_ms, 5000);
    c->handshake_timeout_ms = or_default (c->handshake_timeout_ms, 5000);
    c->liveness_ms = or_default (c->liveness_ms, 60000);
    c->max_unproven = or_default (c->max_unproven, 256);
    c->version_min = c->version_min ? c->version_min : PTL_VERSION_MIN;
    c->version_max = c->version_max ? c->version_max : PTL_VERSION_MAX;
    c->unix_path = NULL; /* the caller's; ni->unix_path is ours */
    c->partition_key = NULL;
    if (config->unix_path && !(ni->unix_path = strdup (config->unix_path)))
        return PTL_NO_SPACE;
    if (config->partition_key) {
        ni->holds_partition_key = true;
        memcpy (ni->partition_key, config->partition_key, PTLX_KEY_BYTES);
        ni->default_key.kind = PTLX_KEY_PARTITION;
        memcpy (ni->default_key.secret, ni->partition_key, PTLX_KEY_BYTES);
    }
    return PTL_OK;
}

static int watch (struct ptl_ni *ni, struct ptl_source *source,
                  enum ptl_source_kind kind)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = source };

    source->kind = kind;
    if (source->fd < 0
        || epoll_ctl (ni->epoll_fd, EPOLL_CTL_ADD, source->fd, &event) < 0)
        return PTL_FAIL;
    return PTL_OK;
}

static int rc_of_errno (void)
{
    return errno == EADDRINUSE ? PTL_PID_IN_USE : PTL_FAIL;
}

static int listen_tcp (struct ptl_ni *ni)
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
    return watch (ni, &ni->tcp, PTL_SOURCE_TCP);
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

static int listen_unix (struct ptl_ni *ni)
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
    return watch (ni, &ni->local, PTL_SOURCE_UNIX);
}

static int open_descriptors (struct ptl_ni *ni)
{
    ni->epoll_fd = epoll_create1 (EPOLL_CLOEXEC);
    ni->event.fd = eventfd (0, EFD_NONBLOCK | EFD_CLOEXEC);
    ni->timer.fd
        = timerfd_create (CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (ni->epoll_fd < 0
        || watch (ni, &ni->event, PTL_SOURCE_EVENT) != PTL_OK
        || watch (ni, &ni->timer, PTL_SOURCE_TIMER) != PTL_OK)
        return PTL_FAIL;
    return PTL_OK;
}

/* Ids of an end that does not listen: nobody can dial a pid above 65535. */
static int choose_identity (struct ptl_ni *ni)
{
    uint64_t random[2];

    if (getrandom (random, sizeof (random), 0) != sizeof (random))
        return PTL_FAIL;
    ni->incarnation = random[0] ? random[0] : 1;
    ni->seed = (uint32_t)random[1];
    ni->self.nid = or_default (ni->config.advertise_nid, LOOPBACK);
    ni->self.pid = (uint32_t)(random[1] >> 32) | 1u << 16;
    if (ni->self.pid == PTL_PID_ANY)
        ni->self.pid--;
    ni->self.kind = ni->holds_partition_key ? PTLX_KEY_PARTITION
                                            : PTLX_KEY_USER;
    ni->self.uid = ni->config.uid;
    return PTL_OK;
}

static void init_lists (struct ptl_ni *ni)
{
    struct ptl_node *lists[] = {
        &ni->conns, &ni->dirty, &ni->grave, &ni->work, &ni->later,
        &ni->self_held, &ni->targets, &ni->addresses, &ni->eqs, &ni->cts, &ni->mds,
        &ni->mes, &ni->objects,
    };

    for (size_t i = 0; i < sizeof (lists) / sizeof (*lists); i++)
        ptl_list_init (lists[i]);
    ni->epoll_fd = ni->tcp.fd = ni->local.fd = ni->event.fd = ni->timer.fd
        = -1;
    ni->wake_ms = PTL_NEVER;
    look_at_clock (ni);
}

int ptl_ni_alloc (const struct ptlx_config *config, struct ptl_ni **nip)
{
    struct ptl_ni *ni;
    int rc;

    if (config->listen_pid != PTLX_NO_LISTEN
        && (config->listen_pid > 65535
            || (config->listen_nid == 0 && config->advertise_nid == 0)))
        return PTL_ARG_INVALID;
    if (!(ni = calloc (1, sizeof (*ni))))
        return PTL_NO_SPACE;
    init_lists (ni);
    if ((rc = configure (ni, config)) == PTL_OK
        && (rc = open_descriptors (ni)) == PTL_OK)
        rc = choose_identity (ni);
    if (rc == PTL_OK && config->listen_pid != PTLX_NO_LISTEN)
        rc = listen_tcp (ni);
    if (rc == PTL_OK && config->unix_path)
        rc = listen_unix (ni);
    if (rc != PTL_OK) {
        int error = errno;

        ptl_ni_free (ni, 0);
        errno = error;
        return rc;
    }
    *nip = ni;
    return PTL_OK;
}

/* ---- deadlines ---- */

void ptl_ni_wake_at (struct ptl_ni *ni, int64_t at_ms)
{
    struct itimerspec spec = { 0 };

    if (at_ms >= ni->wake_ms)
        return;
    ni->wake_ms = at_ms;
    spec.it_value.tv_sec = at_ms / 1000;
    spec.it_value.tv_nsec = at_ms % 1000 * 1000000 + 1;
    timerfd_settime (ni->timer.fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

void ptl_ni_hold (struct ptl_ni *ni, struct ptl_op *op)
{
    ptl_list_remove (&op->work.node);
    ptl_list_append (&ni->self_held, &op->work.node);
    ptl_ni_wake_at (ni, ni->now_ms + HOLD_SELF_MS);
}

static void accept_again (struct ptl_ni *ni)
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

static void tick_peers (struct ptl_ni *ni)
{
    struct ptl_peer *peer, *next;

    /* Ticks free records, and make none: the table stays where it is. */
    for (size_t i = 0; i < ni->peer_slots; i++)
        for (peer = ni->peers[i]; peer; peer = next) {
            next = peer->next;
            ptl_peer_tick (peer);
        }
}

static void tick (struct ptl_ni *ni)
{
    struct ptl_node *next;
    uint64_t expirations;

    (void)!read (ni->timer.fd, &expirations, sizeof (expirations));
    ni->wake_ms = PTL_NEVER;
    for (struct ptl_node *n = ni->conns.next; n != &ni->conns; n = next) {
        struct ptl_conn *conn = ptl_entry (n, struct ptl_conn, all);

        next = n->next;
        ptl_conn_tick (conn);
        /* A tick may have buried its neighbour: begin again. */
        if (conn->state == PTL_CONN_DEAD)
            next = ni->conns.next;
    }
    tick_peers (ni);
    accept_again (ni);
    ptl_list_splice (&ni->work, &ni->self_held);
}

/* ---- progress ---- */

void ptl_ni_work (struct ptl_ni *ni, struct ptl_work *work)
{
    ptl_list_append (&ni->work, &work->node);
}

static void run (struct ptl_node *node)
{
    struct ptl_work *work = ptl_entry (node, struct ptl_work, node);

    work->run (work);
}

static void bury (struct ptl_ni *ni)
{
    while (!ptl_list_empty (&ni->grave))
        ptl_conn_free (ptl_entry (ni->grave.next, struct ptl_conn, all));
}

void ptl_ni_settle (struct ptl_ni *ni)
{
    struct ptl_node *node;

    for (;;) {
        if ((node = ptl_list_pop (&ni->work)))
            run (node);
        else if ((node = ptl_list_pop (&ni->dirty)))
            ptl_conn_flush (ptl_entry (node, struct ptl_conn, dirty));
        else if ((node = ptl_list_pop (&ni->later)))
            run (node);
        else
            break;
    }
    bury (ni);
}

void ptl_ni_signal (struct ptl_ni *ni)
{
    uint64_t value = 1;

    if ((ni->unread > 0) == ni->is_signalled)
        return;
    ni->is_signalled = !ni->is_signalled;
    if (ni->is_signalled)
        (void)!write (ni->event.fd, &value, sizeof (value));
    else
        (void)!read (ni->event.fd, &value, sizeof (value));
}

static void dispatch (struct ptl_ni *ni, struct ptl_source *source,
                      uint32_t events)
{
    switch (source->kind) {
    case PTL_SOURCE_TCP:
    case PTL_SOURCE_UNIX:
        ptl_conn_accept (ni, source);
        break;
    case PTL_SOURCE_EVENT:
        break; /* ptl_ni_signal takes it back */
    case PTL_SOURCE_TIMER:
        tick (ni);
        break;
    case PTL_SOURCE_CONN:
        ptl_conn_ready ((struct ptl_conn *)source, events);
        break;
    }
}

void ptl_ni_progress (struct ptl_ni *ni, int timeout_ms)
{
    struct epoll_event events[EPOLL_BATCH];
    int n = epoll_wait (ni->epoll_fd, events, EPOLL_BATCH, timeout_ms);

    look_at_clock (ni);
    ni->budget_frames = PTL_BUDGET_FRAMES;
    ni->budget_bytes = PTL_BUDGET_BYTES;
    for (int i = 0; i < n; i++)
        dispatch (ni, events[i].data.ptr, events[i].events);
    ptl_ni_settle (ni);
}

void ptl_ni_notify (struct ptl_ni *ni, const struct ptlx_event *event)
{
    if (ni->notify)
        ptl_eq_post_surely (ni->notify, event);
}

/* ---- end ---- */

/* Each has said goodbye and either heard the other's, or knows that the other
 * host has ours: then closing destroys nothing. */
static bool is_flushed (const struct ptl_ni *ni)
{
    struct ptl_conn *conn;

    for (struct ptl_node *n = ni->conns.next; n != &ni->conns; n = n->next) {
        conn = ptl_entry (n, struct ptl_conn, all);
        if (conn->state != PTL_CONN_DRAINING || !ptl_conn_is_flushed (conn))
            return false;
    }
    return ni->n_peers == 0;
}

static void leave_all (struct ptl_ni *ni)
{
    struct ptl_peer *peer, *next;

    for (size_t i = 0; i < ni->peer_slots; i++)
        for (peer = ni->peers[i]; peer; peer = next) {
            next = peer->next;
            ptl_peer_leave (peer);
        }
}

static void stop_listening (struct ptl_ni *ni)
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

static void close_unproven (struct ptl_ni *ni)
{
    struct ptl_node *next;

    for (struct ptl_node *n = ni->conns.next; n != &ni->conns; n = next) {
        struct ptl_conn *conn = ptl_entry (n, struct ptl_conn, all);

        next = n->next;
        if (!conn->peer && conn->state != PTL_CONN_DRAINING)
            ptl_conn_close (conn);
    }
}

static int64_t least (int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void flush (struct ptl_ni *ni, uint32_t flush_ms)
{
    int64_t until = ni->now_ms + flush_ms;

    leave_all (ni);
    close_unproven (ni);
    ptl_ni_settle (ni);
    while (!is_flushed (ni) && ni->now_ms < until) {
        ptl_ni_progress (ni, (int)least (until - ni->now_ms, FLUSH_LOOK_MS));
        leave_all (ni);
        ptl_ni_settle (ni);
    }
}

/* The time is over, or there was none: say goodbye all the same, so that the
 * peers know an end in order from a death. */
static void part (struct ptl_ni *ni)
{
    struct ptl_peer *peer;
    struct ptl_conn *conn;

    for (size_t i = 0; i < ni->peer_slots; i++)
        for (peer = ni->peers[i]; peer; peer = peer->next) {
            conn = peer->conn; /* in the middle of a frame no other can go */
            if (!conn || conn->n_pending > 0)
                continue;
            peer->conn = NULL;
            ptl_conn_leave (conn);
        }
    ptl_ni_settle (ni);
}

static void lose_all_peers (struct ptl_ni *ni)
{
    for (size_t i = 0; i < ni->peer_slots; i++)
        while (ni->peers[i])
            ptl_peer_lost (ni->peers[i], PTLX_LOSS_CLOSED, 0);
    while (!ptl_list_empty (&ni->conns))
        ptl_conn_close (ptl_entry (ni->conns.next, struct ptl_conn, all));
    bury (ni);
}

static void free_nodes (struct ptl_node *list)
{
    struct ptl_node *node;

    while ((node = ptl_list_pop (list)))
        free (node); /* the node is the first member */
}

static void free_objects (struct ptl_ni *ni)
{
    struct ptl_node *n;

    ptl_fwd_free_all (ni);
    while ((n = ptl_list_pop (&ni->work)))
        ptl_op_discard (ptl_entry (n, struct ptl_op, work.node));
    while ((n = ptl_list_pop (&ni->self_held)))
        ptl_op_discard (ptl_entry (n, struct ptl_op, work.node));
    for (n = ni->cts.next; n != &ni->cts; n = n->next)
        ptl_ct_cancel (ptl_entry (n, struct ptl_ct, node));
    while (!ptl_list_empty (&ni->mes))
        ptl_me_free (ptl_entry (ni->mes.next, struct ptl_me, all));
    while (!ptl_list_empty (&ni->mds)) {
        struct ptl_md *md = ptl_entry (ni->mds.next, struct ptl_md, node);

        md->users = 0;
        ptl_ni_forget_handle (md->handle);
        ptl_md_release (md);
    }
    while (!ptl_list_empty (&ni->cts)) {
        struct ptl_ct *ct = ptl_entry (ni->cts.next, struct ptl_ct, node);

        ptl_ni_forget_handle (ct->handle);
        ptl_ct_free (ct);
    }
    while (!ptl_list_empty (&ni->eqs)) {
        struct ptl_eq *eq = ptl_entry (ni->eqs.next, struct ptl_eq, node);

        ptl_ni_forget_handle (eq->handle);
        ptl_eq_free (eq);
    }
}

static void close_if_open (int fd)
{
    if (fd >= 0)
        close (fd);
}

void ptl_ni_free (struct ptl_ni *ni, uint32_t flush_ms)
{
    stop_listening (ni);
    look_at_clock (ni);
    if (flush_ms > 0)
        flush (ni, flush_ms);
    ni->notify = NULL;
    part (ni);
    lose_all_peers (ni);
    free_objects (ni);
    free_nodes (&ni->targets);
    free_nodes (&ni->addresses);
    ptl_op_table_free (&ni->ops);
    close_if_open (ni->epoll_fd);
    close_if_open (ni->event.fd);
    close_if_open (ni->timer.fd);
    free (ni->peers);
    explicit_bzero (ni->partition_key, sizeof (ni->partition_key));
    explicit_bzero (&ni->default_key, sizeof (ni->default_key));
    free (ni);
}
