#include "ptl_room.h"

#include <stdio.h>
#include <sys/resource.h>

#include "ptl_answer.h"
#include "ptl_conn.h"
#include "ptl_near.h"
#include "ptl_peer.h"
#include "ptl_shake.h"

#define LEAST 2      /* connections: one is dialled, one is answered */
#define DIALS_PART 4 /* at most this part of all may be dials */
#define FORGET_MS 1000 /* none missing since then: enough again */

static rlim_t most (void)
{
    struct rlimit limit;

    return getrlimit (RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur
                                                  : RLIM_INFINITY;
}

static bool may_part (const struct ptl_end *end)
{
    return !end->notify && end->tcp.fd >= 0;
}

static bool lands_something (const struct ptl_conn *conn)
{
    for (int i = 0; conn->open && i < PTL_OPEN_MAX; i++)
        if (conn->open[i].is_open)
            return true;
    return conn->payload_left > 0 || conn->header_have > 0;
}

/* Nothing is under way, and each end can dial the other again. */
static bool is_idle (const struct ptl_conn *conn)
{
    const struct ptl_peer *peer = conn->peer;

    return conn->state == PTL_CONN_READY && peer && peer->conn == conn
        && peer->pid < 1u << 16 && !peer->is_leaving
        && !ptl_peer_is_busy (peer) && !lands_something (conn)
        && ptl_near_is_settled (conn);
}

static struct ptl_conn *longest_idle (const struct ptl_end *end)
{
    struct ptl_conn *conn, *found = NULL;

    for (struct ptl_node *n = end->conns.next; n != &end->conns; n = n->next) {
        conn = ptl_entry (n, struct ptl_conn, all);
        if (is_idle (conn) && !conn->is_pinged
            && (!found || conn->heard_ms < found->heard_ms))
            found = conn;
    }
    return found;
}

/* How many connections are possible, now that no descriptor is left. */
static size_t room_of (const struct ptl_end *end)
{
    const struct ptl_conn *conn;
    size_t room = 0;

    for (struct ptl_node *n = end->conns.next; n != &end->conns; n = n->next) {
        conn = ptl_entry (n, struct ptl_conn, all);
        room += 1 + ptl_near_descriptors (conn);
    }
    return room;
}

bool ptl_room_make (struct ptl_end *end)
{
    if (!may_part (end))
        return false;
    end->room = room_of (end);
    end->short_ms = end->now_ms;
    if (end->room < LEAST) {
        ptl_room_complain ();
        return false;
    }
    end->n_short++;
    ptl_end_wake_at (end, end->now_ms);
    return true;
}

/* A dial that has not been answered. The other end may need a descriptor to
 * accept it, and does not count the connection yet. */
static bool is_dial (const struct ptl_conn *conn)
{
    return conn->is_dialled
        && (conn->state == PTL_CONN_CONNECTING
            || (conn->state == PTL_CONN_SHAKING
                && conn->shake->step == PTL_AWAIT_M2));
}

/* Are so many dials under way that no descriptor is left to accept with? */
static bool has_dials (const struct ptl_end *end, size_t more)
{
    size_t n = more;

    for (struct ptl_node *at = end->conns.next; at != &end->conns;
         at = at->next)
        n += is_dial (ptl_entry (at, struct ptl_conn, all));
    return n > 1 && n > end->room / DIALS_PART;
}

bool ptl_room_is_crowded (struct ptl_end *end)
{
    if (end->now_ms - end->short_ms > FORGET_MS)
        end->room = 0;
    return end->room > 0 && has_dials (end, 1);
}

/* The last that was begun. */
static struct ptl_conn *last_dial (const struct ptl_end *end)
{
    struct ptl_conn *conn;

    for (struct ptl_node *n = end->conns.prev; n != &end->conns; n = n->prev) {
        conn = ptl_entry (n, struct ptl_conn, all);
        if (is_dial (conn))
            return conn;
    }
    return NULL;
}

static void ask (struct ptl_conn *conn)
{
    struct ptl_frame ping
        = { .type = PTL_FRAME_PING, .detail = PTL_PING_PART };

    conn->is_pinged = conn->is_parting = true;
    ptl_answer_send (conn, &ping);
}

void ptl_room_tick (struct ptl_end *end)
{
    struct ptl_conn *conn;

    if (end->n_short == 0)
        return;
    while (has_dials (end, 0))
        ptl_peer_collided (last_dial (end)->peer);
    while (end->n_short > 0 && (conn = longest_idle (end))) {
        end->n_short--;
        ask (conn);
    }
    end->n_short = 0;
}

void ptl_room_moved (struct ptl_conn *conn)
{
    conn->moved_ms = conn->end->now_ms;
    conn->is_spare = false;
}

/* Is the owner of this end to be told that the connection is idle? */
static bool is_looked_at (const struct ptl_conn *conn)
{
    const struct ptl_end *end = conn->end;

    return end->config.idle_ms > 0 && end->notify && end->tcp.fd >= 0
        && conn->who.kind == PTLX_KEY_PARTITION;
}

void ptl_room_look (struct ptl_conn *conn)
{
    struct ptl_end *end = conn->end;
    struct ptlx_event event = {
        .type = PTLX_EVENT_PEER_IDLE,
        .nid = conn->who.nid,
        .pid = conn->who.pid,
        .serial = conn->who.serial,
    };

    if (!is_looked_at (conn))
        return;
    if (end->now_ms - conn->moved_ms >= end->config.idle_ms) {
        conn->moved_ms = end->now_ms; /* told again after as long */
        if (is_idle (conn))
            ptl_end_notify (end, &event);
    }
    ptl_conn_due (conn, conn->moved_ms + end->config.idle_ms);
}

void ptl_room_offer (struct ptl_conn *conn)
{
    if (!is_looked_at (conn) || !is_idle (conn))
        return;
    conn->is_spare = true;
    if (!conn->is_pinged)
        ask (conn);
}

bool ptl_room_grant (struct ptl_conn *conn)
{
    if (!(may_part (conn->end) || conn->is_spare) || !is_idle (conn))
        return false;
    ptl_peer_leave (conn->peer);
    return true;
}

void ptl_room_parted (struct ptl_conn *conn)
{
    struct ptl_peer *peer = conn->peer;

    conn->end->above->disconnected (conn->end, conn->who.serial);
    ptl_conn_close (conn);
    ptl_peer_parted (peer);
}

void ptl_room_stay (struct ptl_conn *conn)
{
    if (!conn->is_parting)
        return;
    conn->is_parting = false;
    ptl_conn_kick (conn);
}

void ptl_room_complain (void)
{
    static bool has_said;

    if (has_said)
        return;
    has_said = true;
    fprintf (stderr,
             "libportals: too few descriptors: the limit of this process is "
             "%ju (ulimit -n)\n",
             (uintmax_t)most ());
}
