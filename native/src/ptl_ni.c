#include "ptl_ni.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "ptl_conn.h"
#include "ptl_ct.h"
#include "ptl_eq.h"
#include "ptl_fwd.h"
#include "ptl_listen.h"
#include "ptl_md.h"
#include "ptl_me.h"
#include "ptl_peer.h"

#define FLUSH_LOOK_MS 5 /* the kernel does not tell when it has sent all */
#define LOOPBACK 0x7f000001u

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

int ptl_ni_watch (struct ptl_ni *ni, struct ptl_source *source,
                  enum ptl_source_kind kind)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = source };

    source->kind = kind;
    if (source->fd < 0
        || epoll_ctl (ni->epoll_fd, EPOLL_CTL_ADD, source->fd, &event) < 0)
        return PTL_FAIL;
    return PTL_OK;
}

static int open_descriptors (struct ptl_ni *ni)
{
    ni->epoll_fd = epoll_create1 (EPOLL_CLOEXEC);
    ni->event.fd = eventfd (0, EFD_NONBLOCK | EFD_CLOEXEC);
    ni->timer.fd
        = timerfd_create (CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (ni->epoll_fd < 0
        || ptl_ni_watch (ni, &ni->event, PTL_SOURCE_EVENT) != PTL_OK
        || ptl_ni_watch (ni, &ni->timer, PTL_SOURCE_TIMER) != PTL_OK)
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
        &ni->conns,     &ni->dirty,   &ni->grave,     &ni->work,   &ni->later,
        &ni->self_held, &ni->targets, &ni->addresses, &ni->losses, &ni->eqs,
        &ni->cts,       &ni->mds,     &ni->mes,       &ni->objects,
    };

    for (size_t i = 0; i < sizeof (lists) / sizeof (*lists); i++)
        ptl_list_init (lists[i]);
    ni->epoll_fd = ni->tcp.fd = ni->local.fd = ni->event.fd = ni->timer.fd
        = -1;
    ni->wake_ms = PTL_NEVER;
    ptl_ni_look_at_clock (ni);
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
        rc = ptl_listen_tcp (ni);
    if (rc == PTL_OK && config->unix_path)
        rc = ptl_listen_unix (ni);
    if (rc != PTL_OK) {
        int error = errno;

        ptl_ni_free (ni, 0);
        errno = error;
        return rc;
    }
    *nip = ni;
    return PTL_OK;
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
    ptl_ni_bury (ni);
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
    ptl_listen_stop (ni);
    ptl_ni_look_at_clock (ni);
    if (flush_ms > 0)
        flush (ni, flush_ms);
    ni->notify = NULL;
    part (ni);
    lose_all_peers (ni);
    free_objects (ni);
    free_nodes (&ni->targets);
    free_nodes (&ni->addresses);
    free_nodes (&ni->losses);
    ptl_op_table_free (&ni->ops);
    close_if_open (ni->epoll_fd);
    close_if_open (ni->event.fd);
    close_if_open (ni->timer.fd);
    free (ni->peers);
    explicit_bzero (ni->partition_key, sizeof (ni->partition_key));
    explicit_bzero (&ni->default_key, sizeof (ni->default_key));
    free (ni);
}
