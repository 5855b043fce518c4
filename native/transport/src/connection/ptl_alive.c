#include "ptl_alive.h"

#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include "ptl_answer.h"
#include "ptl_conn.h"
#include "ptl_in.h"
#include "ptl_room.h"

#define PING_PART 3       /* of liveness_ms without a byte: then ping */
#define LATER_PART 32     /* later, where the peer has dialled: it pings */
#define LOOK_PART 6       /* between looks while a pong is awaited */
#define TOGETHER_PART 64  /* looks within this are one, for all connections */
#define HOST_LEAST_MS 3000 /* keepalive counts in whole seconds */
#define PROBE_LEAST_MS 2000

static void set_option (int fd, int level, int name, int value)
{
    /* A failure is ignored: the connection works without the option. */
    (void)!setsockopt (fd, level, name, &value, sizeof (value));
}

/* Time without a sign of life after which a peer is lost. Others must hear of
 * the loss within liveness_ms. */
static int patience_ms (const struct ptl_end *end)
{
    return (int)(end->config.liveness_ms - end->config.liveness_ms / 16);
}

static int at_least (int value, int least)
{
    return value > least ? value : least;
}

void ptl_alive_tune (const struct ptl_end *end, int fd)
{
    int limit = (int)end->config.liveness_ms;

    set_option (fd, IPPROTO_TCP, TCP_USER_TIMEOUT, limit);
    set_option (fd, IPPROTO_TCP, TCP_KEEPIDLE,
                at_least (limit / PING_PART / 1000, 1));
    set_option (fd, IPPROTO_TCP, TCP_KEEPINTVL,
                at_least (limit / LOOK_PART / 1000, 1));
    set_option (fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

/* When to ping if nothing is heard meanwhile. Both ends have heard each other
 * at the same time: one of them pings, and the other hears that before it would.
 * A shut window is looked at more often than the kernel probes it. */
static int64_t ping_at (const struct ptl_conn *conn)
{
    int64_t limit = conn->end->config.liveness_ms;

    return conn->heard_ms + limit / PING_PART
        + (conn->is_dialled ? 0 : limit / LATER_PART);
}

/* Look at a connection at this time, or a little later: one turn looks at many,
 * and what they answer comes in few, too. */
static void look_at (struct ptl_conn *conn, int64_t at_ms)
{
    int64_t step = conn->end->config.liveness_ms / TOGETHER_PART;

    conn->look_ms = step > 0 ? (at_ms + step - 1) / step * step : at_ms;
    ptl_conn_due (conn, conn->look_ms);
}

void ptl_alive_begin (struct ptl_conn *conn)
{
    struct ptl_end *end = conn->end;

    conn->heard_ms = conn->host_ms = end->now_ms;
    look_at (conn, ping_at (conn));
    ptl_room_moved (conn);
    ptl_room_look (conn);
}

static int64_t later (int64_t at_ms, int64_t by_ms, int64_t most_ms)
{
    return at_ms + by_ms < most_ms ? at_ms + by_ms : most_ms;
}

void ptl_alive_stood (struct ptl_conn *conn, int64_t late_ms)
{
    int64_t now = conn->end->now_ms;

    conn->heard_ms = later (conn->heard_ms, late_ms, now);
    conn->host_ms = later (conn->host_ms, late_ms, now);
}

/* ---- the host ---- */

/* TCP_USER_TIMEOUT also ends connections whose reader is only stopped and whose
 * window stays shut. The kernel probes a shut window ever more rarely, at last
 * every two minutes, but always when that timeout expires. So the timeout is
 * moved on while the probes are answered: the kernel then probes that often,
 * and ends the connection when a probe is not answered. */
static void move_timeout (struct ptl_conn *conn, const struct tcp_info *info)
{
    int limit = (int)conn->end->config.liveness_ms;
    bool is_shut = info->tcpi_unacked == 0 && info->tcpi_notsent_bytes > 0;
    int more = at_least (limit / 5 * 2, PROBE_LEAST_MS);

    if (is_shut && info->tcpi_probes > 0)
        return;
    if (is_shut)
        set_option (conn->source.fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
                    (int)info->tcpi_last_data_sent + more);
    else if (conn->is_shut)
        set_option (conn->source.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, limit);
    conn->is_shut = is_shut;
}

/* The kernel has sent data again and again, and nothing is acknowledged. */
static bool is_host_gone (struct ptl_conn *conn)
{
    struct ptl_end *end = conn->end;
    struct tcp_info info = { 0 };
    socklen_t size = sizeof (info);
    int64_t acked_ms;

    if (conn->is_unix
        || getsockopt (conn->source.fd, IPPROTO_TCP, TCP_INFO, &info, &size))
        return false;
    move_timeout (conn, &info);
    acked_ms = end->now_ms - info.tcpi_last_ack_recv;
    if (conn->host_ms < acked_ms)
        conn->host_ms = acked_ms;
    if (conn->host_ms < conn->heard_ms)
        conn->host_ms = conn->heard_ms;
    return !conn->is_shut && info.tcpi_unacked + info.tcpi_probes > 0
        && end->now_ms - conn->host_ms
            >= at_least (patience_ms (end), HOST_LEAST_MS);
}

/* ---- the process ---- */

static bool must_answer (const struct ptl_conn *conn)
{
    return conn->end->config.wants_answers
        && (conn->is_dialled || conn->who.pid < 1u << 16);
}

/* A ping behind other bytes on a slow link cannot have been read yet. That the
 * bytes before it still move is a sign of life; of a stopped reader they stop
 * when its socket is full. */
static bool is_on_its_way (struct ptl_conn *conn)
{
    int queued = 0;
    int64_t acked;
    bool has_moved;

    if (ioctl (conn->source.fd, SIOCOUTQ, &queued) < 0)
        return false;
    acked = conn->written - queued;
    has_moved = acked > conn->acked;
    conn->acked = acked;
    if (conn->ping_end == 0 && conn->small_length == 0 && !conn->pending)
        conn->ping_end = conn->written;
    return has_moved && (conn->ping_end == 0 || acked < conn->ping_end);
}

static bool is_silent (const struct ptl_conn *conn)
{
    return conn->end->now_ms - conn->heard_ms >= patience_ms (conn->end);
}

/* Read first what waits in the socket: we may have been slow to read it. */
static bool has_stopped (struct ptl_conn *conn)
{
    if (!must_answer (conn))
        return false;
    if (conn->is_pinged && is_on_its_way (conn))
        conn->heard_ms = conn->end->now_ms;
    if (!is_silent (conn))
        return false;
    ptl_in_read_all (conn);
    return conn->state == PTL_CONN_READY && is_silent (conn);
}

static void ping (struct ptl_conn *conn)
{
    struct ptl_frame frame = { .type = PTL_FRAME_PING };

    conn->is_pinged = true;
    conn->ping_end = 0;
    ptl_answer_send (conn, &frame);
}

static void look (struct ptl_conn *conn)
{
    struct ptl_end *end = conn->end;
    int64_t next = end->now_ms + end->config.liveness_ms / LOOK_PART + 1;

    if (is_host_gone (conn)) {
        ptl_conn_fail (conn, PTLX_LOSS_DIED, ETIMEDOUT);
        return;
    }
    if (has_stopped (conn)) {
        ptl_conn_fail (conn, PTLX_LOSS_DIED, ETIME);
        return;
    }
    if (conn->state != PTL_CONN_READY)
        return;
    if (!conn->is_pinged && end->now_ms >= ping_at (conn))
        ping (conn);
    if (conn->state != PTL_CONN_READY)
        return;
    if (!conn->is_pinged)
        next = ping_at (conn);
    else if (must_answer (conn) && conn->heard_ms + patience_ms (end) < next)
        next = conn->heard_ms + patience_ms (end);
    look_at (conn, next);
}

void ptl_alive_answered (struct ptl_conn *conn)
{
    conn->is_pinged = false;
    look_at (conn, ping_at (conn));
}

void ptl_alive_tick (struct ptl_conn *conn)
{
    if (conn->end->now_ms >= conn->look_ms)
        look (conn);
    else
        ptl_conn_due (conn, conn->look_ms);
}
