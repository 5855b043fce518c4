#include "ptl_end.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "ptl_conn.h"
#include "ptl_listen.h"
#include "ptl_peer.h"

#define FLUSH_LOOK_MS 5 /* the kernel sends no event when all is sent */
#define LOOPBACK 0x7f000001u

/* ---- making ---- */

static uint32_t or_default (uint32_t value, uint32_t standard)
{
    return value ? value : standard;
}

void ptl_end_hold_keys (struct ptl_end *end, const uint8_t *keys, unsigned n)
{
    explicit_bzero (end->partition_keys, sizeof (end->partition_keys));
    memcpy (end->partition_keys, keys, (size_t)n * PTLX_KEY_BYTES);
    end->n_partition_keys = n;
    if (end->default_key.kind == PTLX_KEY_PARTITION)
        memcpy (end->default_key.secret, keys, PTLX_KEY_BYTES);
}

static int configure (struct ptl_end *end, const struct ptlx_config *config)
{
    struct ptlx_config *c = &end->config;

    *c = *config;
    c->connect_timeout_ms = or_default (c->connect_timeout_ms, 5000);
    c->handshake_timeout_ms = or_default (c->handshake_timeout_ms, 5000);
    c->liveness_ms = or_default (c->liveness_ms, 20000);
    c->max_unproven = or_default (c->max_unproven, 1024);
    c->max_unproven_each = or_default (c->max_unproven_each, 256);
    c->sending_bytes = or_default (c->sending_bytes, 8u << 20);
    c->version_min = c->version_min ? c->version_min : PTL_VERSION_MIN;
    c->version_max = c->version_max ? c->version_max : PTL_VERSION_MAX;
    c->unix_path = NULL; /* the caller's; end->unix_path is ours */
    c->partition_key = NULL;
    if (config->unix_path && !(end->unix_path = strdup (config->unix_path)))
        return PTL_NO_SPACE;
    if (config->partition_key) {
        end->default_key.kind = PTLX_KEY_PARTITION;
        ptl_end_hold_keys (end, config->partition_key, 1);
    }
    return PTL_OK;
}

int ptl_end_watch (struct ptl_end *end, struct ptl_source *source,
                  enum ptl_source_kind kind)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = source };

    source->kind = kind;
    if (source->fd < 0
        || epoll_ctl (end->epoll_fd, EPOLL_CTL_ADD, source->fd, &event) < 0)
        return PTL_FAIL;
    return PTL_OK;
}

static int open_descriptors (struct ptl_end *end)
{
    end->epoll_fd = epoll_create1 (EPOLL_CLOEXEC);
    end->event.fd = eventfd (0, EFD_NONBLOCK | EFD_CLOEXEC);
    end->timer.fd
        = timerfd_create (CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (end->epoll_fd < 0
        || ptl_end_watch (end, &end->event, PTL_SOURCE_EVENT) != PTL_OK
        || ptl_end_watch (end, &end->timer, PTL_SOURCE_TIMER) != PTL_OK)
        return PTL_FAIL;
    return PTL_OK;
}

/* Choose ids for an end that does not listen: nobody can dial a pid above
 * 65535. */
static int choose_identity (struct ptl_end *end)
{
    uint64_t random[2];

    if (getrandom (random, sizeof (random), 0) != sizeof (random))
        return PTL_FAIL;
    end->incarnation = random[0] ? random[0] : 1;
    end->seed = (uint32_t)random[1];
    end->self.nid = or_default (end->config.advertise_nid, LOOPBACK);
    end->self.pid = (uint32_t)(random[1] >> 32) | 1u << 16;
    if (end->self.pid == PTL_PID_ANY)
        end->self.pid--;
    end->self.kind = end->n_partition_keys > 0 ? PTLX_KEY_PARTITION
                                               : PTLX_KEY_USER;
    end->self.uid = end->config.uid;
    return PTL_OK;
}

static void init_lists (struct ptl_end *end)
{
    struct ptl_node *lists[] = {
        &end->node,    &end->nears,
        &end->conns,   &end->dirty,     &end->grave,  &end->work,
        &end->later,   &end->self_held, &end->targets, &end->addresses,
        &end->losses,  &end->objects,   &end->origins,
        &end->turns,
    };

    for (size_t i = 0; i < sizeof (lists) / sizeof (*lists); i++)
        ptl_list_init (lists[i]);
    for (size_t i = 0; i < PTL_SHARE_LISTS; i++)
        ptl_list_init (&end->shares[i]);
    end->epoll_fd = end->tcp.fd = end->local.fd = end->near.fd = -1;
    end->event.fd = end->timer.fd = -1;
    pthread_cond_init (&end->woken, NULL);
    end->wake_ms = PTL_NEVER;
    ptl_end_look_at_clock (end);
}

int ptl_end_alloc (const struct ptlx_config *config,
                   const struct ptl_above *above, struct ptl_end **endp)
{
    struct ptl_end *end;
    int rc;

    if (config->listen_pid != PTLX_NO_LISTEN
        && (config->listen_pid > 65535
            || (config->listen_nid == 0 && config->advertise_nid == 0)))
        return PTL_ARG_INVALID;
    if (!(end = calloc (1, sizeof (*end))))
        return PTL_NO_SPACE;
    end->above = above;
    init_lists (end);
    if ((rc = configure (end, config)) == PTL_OK
        && (rc = open_descriptors (end)) == PTL_OK)
        rc = choose_identity (end);
    if (rc == PTL_OK && config->listen_pid != PTLX_NO_LISTEN)
        rc = ptl_listen_tcp (end);
    if (rc == PTL_OK && config->unix_path)
        rc = ptl_listen_unix (end);
    if (rc == PTL_OK && config->is_local)
        ptl_listen_near (end);
    if (rc != PTL_OK) {
        int error = errno;

        ptl_end_free (end, 0);
        errno = error;
        return rc;
    }
    *endp = end;
    return PTL_OK;
}

/* ---- end ---- */

/* Every connection has said goodbye, and has either received the other's or
 * knows that the other host has ours: closing it destroys nothing. */
static bool is_flushed (const struct ptl_end *end)
{
    struct ptl_conn *conn;

    for (struct ptl_node *n = end->conns.next; n != &end->conns; n = n->next) {
        conn = ptl_entry (n, struct ptl_conn, all);
        if (conn->state != PTL_CONN_DRAINING || !ptl_conn_is_flushed (conn))
            return false;
    }
    return end->n_peers == 0;
}

static void leave_all (struct ptl_end *end)
{
    struct ptl_peer *peer, *next;

    for (size_t i = 0; i < end->peer_slots; i++)
        for (peer = end->peers[i]; peer; peer = next) {
            next = peer->next;
            ptl_peer_leave (peer);
        }
}

static void close_unproven (struct ptl_end *end)
{
    struct ptl_node *next;

    for (struct ptl_node *n = end->conns.next; n != &end->conns; n = next) {
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

static void flush (struct ptl_end *end, uint32_t flush_ms)
{
    int64_t until = end->now_ms + flush_ms;

    leave_all (end);
    close_unproven (end);
    ptl_end_settle (end);
    while (!is_flushed (end) && end->now_ms < until) {
        ptl_end_progress (end, (int)least (until - end->now_ms, FLUSH_LOOK_MS));
        leave_all (end);
        ptl_end_settle (end);
    }
}

/* The time is over, or there was none. Say goodbye all the same: it lets the
 * peers tell an orderly end from a death. */
static void part (struct ptl_end *end)
{
    struct ptl_peer *peer;
    struct ptl_conn *conn;

    for (size_t i = 0; i < end->peer_slots; i++)
        for (peer = end->peers[i]; peer; peer = peer->next) {
            conn = peer->conn; /* a frame is half sent: none can follow */
            if (!conn || conn->pending)
                continue;
            peer->conn = NULL;
            ptl_conn_leave (conn);
        }
    ptl_end_settle (end);
}

static void lose_all_peers (struct ptl_end *end)
{
    for (size_t i = 0; i < end->peer_slots; i++)
        while (end->peers[i])
            ptl_peer_lost (end->peers[i], PTLX_LOSS_CLOSED, 0);
    while (!ptl_list_empty (&end->conns))
        ptl_conn_close (ptl_entry (end->conns.next, struct ptl_conn, all));
    ptl_end_bury (end);
}

static void free_nodes (struct ptl_node *list)
{
    struct ptl_node *node;

    while ((node = ptl_list_pop (list)))
        free (node); /* the node is the first member */
}

static void discard_work (struct ptl_node *list)
{
    struct ptl_node *node;

    while ((node = ptl_list_pop (list)))
        ptl_work_discard (ptl_entry (node, struct ptl_work, node));
}

void ptl_end_discard_work (struct ptl_end *end)
{
    discard_work (&end->work);
    discard_work (&end->self_held);
}

/* An operation of this interface that has not wholly left; NULL: none. */
static struct ptl_op *unsent (const struct ptl_end *end,
                              const struct ptl_ni *ni)
{
    struct ptl_op *op;

    for (uint32_t i = 0; i < end->ops.size; i++) {
        op = end->ops.slots[i];
        if (op && op->ni == ni && op->state != PTL_OP_SENT)
            return op;
    }
    return NULL;
}

void ptl_end_detach (struct ptl_end *end, struct ptl_ni *ni)
{
    struct ptl_op *op;
    int64_t until;

    ptl_end_look_at_clock (end);
    until = end->now_ms + PTL_FLUSH_MS;
    ptl_end_settle (end);
    while (unsent (end, ni) && end->now_ms < until)
        ptl_end_progress (end, (int)least (until - end->now_ms,
                                           FLUSH_LOOK_MS));
    while ((op = unsent (end, ni))) {
        if (op->peer)
            ptl_peer_lost (op->peer, PTLX_LOSS_CLOSED, 0);
        else
            ptl_op_discard (op);
    }
    for (uint32_t i = 0; i < end->ops.size; i++)
        if ((op = end->ops.slots[i]) && op->ni == ni)
            ptl_op_orphan (op);
    for (struct ptl_node *n = end->conns.next; n != &end->conns; n = n->next)
        ptl_conn_forget_ni (ptl_entry (n, struct ptl_conn, all), ni);
}

/* A peer with an operation under way there; NULL: there is none. */
static struct ptl_peer *busy_peer (const struct ptl_end *end,
                                   const struct ptl_ni *ni, unsigned index)
{
    const struct ptl_conn *conn;
    const struct ptl_op *op;

    for (struct ptl_node *n = end->conns.next; n != &end->conns; n = n->next) {
        conn = ptl_entry (n, struct ptl_conn, all);
        if (conn->peer && ptl_conn_lands_at (conn, ni, index))
            return conn->peer;
    }
    for (uint32_t i = 0; i < end->ops.size; i++) {
        op = end->ops.slots[i];
        if (op && op->type == PTL_FRAME_REPLY && op->ni == ni
            && op->pt_index == index)
            return op->peer;
    }
    return NULL;
}

void ptl_end_cut (struct ptl_end *end, const struct ptl_ni *ni, unsigned index)
{
    struct ptl_peer *peer;

    while ((peer = busy_peer (end, ni, index)))
        ptl_peer_lost (peer, PTLX_LOSS_DIED, ETIMEDOUT);
}

static void close_if_open (int fd)
{
    if (fd >= 0)
        close (fd);
}

void ptl_end_free (struct ptl_end *end, uint32_t flush_ms)
{
    end->above->ending (end);
    end->n_bundles = 0;
    ptl_listen_stop (end);
    ptl_end_look_at_clock (end);
    if (flush_ms > 0)
        flush (end, flush_ms);
    end->notify = NULL;
    part (end);
    lose_all_peers (end);
    end->above->ended (end);
    free_nodes (&end->targets);
    free_nodes (&end->addresses);
    free_nodes (&end->losses);
    ptl_op_table_free (&end->ops);
    ptl_share_free_all (end);
    ptl_list_remove (&end->node);
    close_if_open (end->epoll_fd);
    close_if_open (end->event.fd);
    close_if_open (end->timer.fd);
    pthread_cond_destroy (&end->woken);
    free (end->peers);
    free (end->spare_small);
    explicit_bzero (end->partition_keys, sizeof (end->partition_keys));
    explicit_bzero (&end->default_key, sizeof (end->default_key));
    explicit_bzero (end->credential, sizeof (end->credential));
    free (end);
}
