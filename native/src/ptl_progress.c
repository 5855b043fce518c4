/* ptl_progress.c - what an interface does when it is due. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "ptl_conn.h"
#include "ptl_eq.h"
#include "ptl_listen.h"
#include "ptl_ni.h"
#include "ptl_peer.h"

#define EPOLL_BATCH 64
#define HOLD_SELF_MS 1

int64_t ptl_clock_ns (void)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void ptl_ni_look_at_clock (struct ptl_ni *ni)
{
    ni->now_ms = ptl_clock_ns () / 1000000;
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
    ptl_listen_again (ni);
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

void ptl_ni_bury (struct ptl_ni *ni)
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
    ptl_ni_bury (ni);
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
        ptl_listen_accept (ni, source);
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

    ptl_ni_look_at_clock (ni);
    ni->budget_frames = PTL_BUDGET_FRAMES;
    ni->budget_bytes = PTL_BUDGET_BYTES;
    for (int i = 0; i < n; i++)
        dispatch (ni, events[i].data.ptr, events[i].events);
    ptl_ni_settle (ni);
}

static struct ptl_loss *find_loss (const struct ptl_ni *ni, uint32_t nid,
                                   uint32_t pid)
{
    struct ptl_loss *loss;

    for (struct ptl_node *n = ni->losses.next; n != &ni->losses;
         n = n->next) {
        loss = ptl_entry (n, struct ptl_loss, node);
        if (loss->nid == nid && loss->pid == pid)
            return loss;
    }
    return NULL;
}

static void mourn (struct ptl_ni *ni, const struct ptlx_event *event)
{
    struct ptl_loss *loss = calloc (1, sizeof (*loss));

    if (!loss)
        return;
    loss->nid = event->nid;
    loss->pid = event->pid;
    ptl_list_append (&ni->losses, &loss->node);
}

void ptl_ni_notify (struct ptl_ni *ni, const struct ptlx_event *event)
{
    if (!ni->notify)
        return;
    ptl_eq_post_surely (ni->notify, event);
    if (event->type == PTLX_EVENT_PEER_LOST)
        mourn (ni, event);
}

bool ptl_ni_is_mourned (const struct ptl_ni *ni, uint32_t nid, uint32_t pid)
{
    return find_loss (ni, nid, pid) != NULL;
}

void ptl_ni_was_read (struct ptl_ni *ni, const struct ptlx_event *event)
{
    struct ptl_loss *loss;

    if (event->type != PTLX_EVENT_PEER_LOST
        || !(loss = find_loss (ni, event->nid, event->pid)))
        return;
    ptl_list_remove (&loss->node);
    free (loss);
}
