/* ptl_progress.c - one turn of an endpoint: events, deadlines, work, output. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "ptl_alive.h"
#include "ptl_conn.h"
#include "ptl_listen.h"
#include "ptl_end.h"
#include "ptl_near.h"
#include "ptl_out.h"
#include "ptl_peer.h"
#include "ptl_room.h"
#include "ptl_wake.h"

#define EPOLL_BATCH 64
#define HOLD_SELF_MS 1
#define STOOD_LEAST_MS 50 /* a delay above this is not just other work */

int64_t ptl_clock_ns (void)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void ptl_end_look_at_clock (struct ptl_end *end)
{
    end->now_ms = ptl_clock_ns () / 1000000;
}

/* ---- deadlines ---- */

void ptl_end_wake_at (struct ptl_end *end, int64_t at_ms)
{
    struct itimerspec spec = { 0 };

    if (at_ms >= end->wake_ms)
        return;
    end->wake_ms = at_ms;
    end->armed_ms = ptl_clock_ns () / 1000000; /* now_ms may be old */
    spec.it_value.tv_sec = at_ms / 1000;
    spec.it_value.tv_nsec = at_ms % 1000 * 1000000 + 1;
    timerfd_settime (end->timer.fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

void ptl_end_hold (struct ptl_end *end, struct ptl_op *op)
{
    ptl_list_remove (&op->work.node);
    ptl_list_append (&end->self_held, &op->work.node);
    ptl_end_wake_at (end, end->now_ms + HOLD_SELF_MS);
}

/* What is looked at asks for its next look: later than now, so this ends. */
static void tick_conns (struct ptl_end *end)
{
    struct ptl_due *due;

    if (end->is_starved)
        for (struct ptl_node *n = end->conns.next; n != &end->conns;
             n = n->next)
            ptl_dues_put (&end->conn_dues,
                          &ptl_entry (n, struct ptl_conn, all)->due,
                          end->now_ms);
    while ((due = ptl_dues_pop (&end->conn_dues, end->now_ms)))
        ptl_conn_tick (ptl_entry (due, struct ptl_conn, due));
    end->is_starved = false;
}

static void tick_peers (struct ptl_end *end)
{
    struct ptl_due *due;

    for (size_t i = 0; end->has_freed && i < end->peer_slots; i++)
        for (struct ptl_peer *peer = end->peers[i]; peer; peer = peer->next)
            ptl_dues_put (&end->peer_dues, &peer->due, end->now_ms);
    while ((due = ptl_dues_pop (&end->peer_dues, end->now_ms)))
        ptl_peer_tick (ptl_entry (due, struct ptl_peer, due));
}

/* How long after its time the timer was seen. */
static int64_t late_ms (const struct ptl_end *end)
{
    int64_t due = end->wake_ms > end->armed_ms ? end->wake_ms : end->armed_ms;
    int64_t late = end->now_ms - due;

    return late > STOOD_LEAST_MS ? late : 0;
}

static void stood (struct ptl_end *end, int64_t late)
{
    end->stood_ms += late;
    for (struct ptl_node *n = end->conns.next; late > 0 && n != &end->conns;
         n = n->next)
        ptl_alive_stood (ptl_entry (n, struct ptl_conn, all), late);
}

static void tick (struct ptl_end *end)
{
    uint64_t expirations;

    (void)!read (end->timer.fd, &expirations, sizeof (expirations));
    stood (end, late_ms (end));
    end->wake_ms = PTL_NEVER;
    tick_conns (end);
    tick_peers (end);
    ptl_room_tick (end);
    ptl_listen_again (end);
    end->has_freed = false;
    ptl_list_splice (&end->work, &end->self_held);
    ptl_end_wake_at (end, ptl_dues_next (&end->conn_dues));
    ptl_end_wake_at (end, ptl_dues_next (&end->peer_dues));
}

/* ---- progress ---- */

void ptl_end_work (struct ptl_end *end, struct ptl_work *work)
{
    ptl_list_append (&end->work, &work->node);
}

static void run (struct ptl_node *node)
{
    struct ptl_work *work = ptl_entry (node, struct ptl_work, node);

    work->run (work);
}

void ptl_end_bury (struct ptl_end *end)
{
    while (!ptl_list_empty (&end->grave))
        ptl_conn_free (ptl_entry (end->grave.next, struct ptl_conn, all));
}

/* `writes` is false in a bundle: then only ptl_end_progress writes. */
static void settle (struct ptl_end *end, bool writes)
{
    struct ptl_node *node;

    for (;;) {
        if ((node = ptl_list_pop (&end->work)))
            run (node);
        else if (writes && (node = ptl_list_pop (&end->dirty)))
            ptl_out_flush (ptl_entry (node, struct ptl_conn, dirty));
        else if ((node = ptl_list_pop (&end->later)))
            run (node);
        else
            break;
    }
    ptl_end_bury (end);
}

void ptl_end_settle (struct ptl_end *end)
{
    settle (end, end->n_bundles == 0);
}

void ptl_end_signal (struct ptl_end *end)
{
    bool wanted = (end->is_watched && end->unread > 0)
        || (end->n_asleep > 0 && end->changes != end->changes_seen);
    uint64_t value = 1;

    if (wanted == end->is_signalled)
        return;
    if (!wanted) {
        ptl_end_unsignal (end);
        return;
    }
    end->is_signalled = true;
    (void)!write (end->event.fd, &value, sizeof (value));
}

void ptl_end_unsignal (struct ptl_end *end)
{
    uint64_t value;

    if (end->is_signalled)
        (void)!read (end->event.fd, &value, sizeof (value));
    end->is_signalled = false;
}

bool ptl_end_may_sleep (struct ptl_end *end)
{
    return ptl_wake_may_sleep (end);
}

#define HOT_LOOKS_LEAST 4 /* then look at every socket; twice as often */
#define HOT_LOOKS_MOST 64 /* while no other socket brings anything */
#define NEAR_LOOKS 256 /* where each look costs no system call */
#define CLOCK_LOOKS 8  /* looks between two readings of the clock */

static void give_budget (struct ptl_end *end)
{
    end->budget_frames = PTL_BUDGET_FRAMES;
    end->budget_bytes = PTL_BUDGET_BYTES;
}

/* Look first at the connection that brought the last message. */
static void is_hot (struct ptl_end *end, struct ptl_conn *conn)
{
    if (end->hot == conn)
        return;
    end->hot = conn;
    end->hot_looks = HOT_LOOKS_LEAST;
}

static void look_longer (struct ptl_end *end)
{
    end->n_hot = 0;
    if (end->hot_looks < HOT_LOOKS_MOST)
        end->hot_looks *= 2;
}

/* Large transfers take long: look at the others after some time, too. */
static bool is_overdue (const struct ptl_end *end)
{
    return end->now_ms * 1000000
        > atomic_load_explicit (&end->looked_ns, memory_order_relaxed);
}

/* Read, and write what did not fit. A spinning thread does both as soon as the
 * socket can, which for writing is long before epoll reports it. */
static void look_at_hot (struct ptl_end *end)
{
    uint32_t events = EPOLLIN;

    if (end->hot->wants_out) {
        events |= EPOLLOUT;
        ptl_end_look_at_clock (end);
    }
    ptl_conn_ready (end->hot, events);
}

void ptl_end_poll (struct ptl_end *end)
{
    bool is_near = !ptl_list_empty (&end->nears);
    unsigned most = is_near && !end->hot ? NEAR_LOOKS : end->hot_looks;

    /* Calls may be far apart, and there may be no thread. */
    if (end->n_hot % CLOCK_LOOKS == CLOCK_LOOKS - 1)
        ptl_end_look_at_clock (end);
    if ((!end->hot && !is_near) || end->n_hot++ >= most || is_overdue (end)) {
        look_longer (end);
        ptl_end_progress (end, 0);
        return;
    }
    give_budget (end);
    if (!ptl_wake_glance (end) && end->hot)
        look_at_hot (end);
    settle (end, true);
}

static void dispatch (struct ptl_end *end, struct ptl_source *source,
                      uint32_t events)
{
    switch (source->kind) {
    case PTL_SOURCE_TCP:
    case PTL_SOURCE_UNIX:
        ptl_listen_accept (end, source);
        break;
    case PTL_SOURCE_EVENT:
        break; /* cleared by ptl_end_signal */
    case PTL_SOURCE_TIMER:
        tick (end);
        break;
    case PTL_SOURCE_ABORT:
        end->above->aborted (end);
        break;
    case PTL_SOURCE_CONN:
        if (((struct ptl_conn *)source)->state == PTL_CONN_READY
            && !ptl_near_is_in ((struct ptl_conn *)source))
            is_hot (end, (struct ptl_conn *)source);
        ptl_conn_ready ((struct ptl_conn *)source, events);
        break;
    case PTL_SOURCE_NEAR:
        ptl_wake_ready ((struct ptl_near *)source);
        break;
    }
}

void ptl_end_progress (struct ptl_end *end, int timeout_ms)
{
    struct epoll_event events[EPOLL_BATCH];
    bool sleeps = timeout_ms != 0 && ptl_wake_may_sleep (end);
    int n = epoll_wait (end->epoll_fd, events, EPOLL_BATCH,
                        sleeps ? timeout_ms : 0);
    int64_t now;

    now = ptl_clock_ns ();
    end->now_ms = now / 1000000;
    atomic_store_explicit (&end->looked_ns, now, memory_order_relaxed);
    give_budget (end);
    for (int i = 0; i < n; i++)
        dispatch (end, events[i].data.ptr, events[i].events);
    ptl_wake_glance (end);
    settle (end, true);
    /* A wake-up of other threads may have been cleared here before they ran. */
    if (end->is_watched || end->n_asleep > 0)
        ptl_wake_arm_all (end);
}

static struct ptl_loss *find_loss (const struct ptl_end *end, uint32_t nid,
                                   uint32_t pid)
{
    struct ptl_loss *loss;

    for (struct ptl_node *n = end->losses.next; n != &end->losses;
         n = n->next) {
        loss = ptl_entry (n, struct ptl_loss, node);
        if (loss->nid == nid && loss->pid == pid)
            return loss;
    }
    return NULL;
}

static void mourn (struct ptl_end *end, const struct ptlx_event *event)
{
    struct ptl_loss *loss = calloc (1, sizeof (*loss));

    if (!loss)
        return;
    loss->nid = event->nid;
    loss->pid = event->pid;
    ptl_list_append (&end->losses, &loss->node);
}

void ptl_end_notify (struct ptl_end *end, const struct ptlx_event *event)
{
    if (!end->notify)
        return;
    end->above->post (end->notify, event);
    if (event->type == PTLX_EVENT_PEER_LOST)
        mourn (end, event);
}

bool ptl_end_is_mourned (const struct ptl_end *end, uint32_t nid, uint32_t pid)
{
    return find_loss (end, nid, pid) != NULL;
}

void ptl_end_was_read (struct ptl_end *end, const struct ptlx_event *event)
{
    struct ptl_loss *loss;

    if (event->type != PTLX_EVENT_PEER_LOST
        || !(loss = find_loss (end, event->nid, event->pid)))
        return;
    ptl_list_remove (&loss->node);
    free (loss);
}
