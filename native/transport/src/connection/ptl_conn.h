/* ptl_conn.h - one connection: socket, state, what is half read and written.
 *
 * CONNECTING and SHAKING connections are unproven; READY ones belong to a
 * peer; a DRAINING one has said goodbye and waits for the other's end; a DEAD
 * one waits in the grave until no caller can hold a pointer to it.
 *
 * An idle connection keeps no buffer: staging belongs to the endpoint, send
 * buffers exist while something is in them.
 */
#ifndef PTL_CONN_H
#define PTL_CONN_H

#include <sys/socket.h>

#include "ptl_end.h"
#include "ptl_wire.h"

struct ptl_near;
struct ptl_op;
struct ptl_pending;
struct ptl_seal;
struct ptl_shake;
struct ptl_share;

enum ptl_conn_state {
    PTL_CONN_CONNECTING,
    PTL_CONN_SHAKING,
    PTL_CONN_READY,
    PTL_CONN_DRAINING,
    PTL_CONN_DEAD
};

struct ptl_conn {
    struct ptl_source source; /* first: what epoll gives back */
    struct ptl_node all;      /* in end->conns, or end->grave */
    struct ptl_node dirty;    /* in end->dirty */
    struct ptl_due due;       /* in end->conn_dues */
    struct ptl_end *end;
    struct ptl_peer *peer; /* or NULL */
    enum ptl_conn_state state;
    bool is_dialled; /* opened by us */
    bool is_unix;
    bool is_near; /* to a process of this host that may share memory */
    bool shares;  /* both ends offered it (ptl_near.h) */
    uint8_t n_moves; /* reads and writes until memory is shared */
    bool wants_out;  /* EPOLLOUT is set */
    bool is_pinged;  /* a pong is awaited */
    bool is_parting; /* that ping asks to close: send nothing new */
    bool is_spare;   /* may be closed, as far as this end goes */
    bool is_shut;    /* the peer's window is (ptl_alive.c) */
    uint64_t incarnation; /* of the peer */
    struct ptl_who who;
    int64_t heard_ms, deadline_ms;
    int64_t host_ms; /* the last sign of life of the peer's host */
    int64_t look_ms; /* when to look for one again (ptl_alive.c) */
    int64_t moved_ms; /* the last frame of an operation (ptl_room.h) */
    int64_t written, acked; /* bytes; acked: when last looked (ptl_alive.c) */
    int64_t ping_end; /* where in `written` an unanswered ping is; 0: not yet */
    int64_t ack_ms; /* acks are sent by then; 0: none waits */
    struct ptl_shake *shake; /* until READY */
    struct ptl_share *share; /* of whom it is, or NULL */
    struct ptl_near *near;   /* NULL: no memory is shared */

    struct ptl_seal *seal; /* of integrity, or NULL */
    uint8_t header[PTL_HEADER_BYTES + 16]; /* half read, with its seal */
    unsigned header_have;
    struct ptl_frame frame; /* the last header, taken apart */
    uint32_t payload_left;
    struct ptl_rx *rx;    /* whose payload is next */
    struct ptl_rx single; /* an operation of one frame */
    struct ptl_rx *open;  /* PTL_OPEN_MAX of them, once needed */
    struct ptl_op *reply; /* ours, whose reply is next */
    uint8_t *gather;      /* payload of an atomic operation, in parts */
    uint64_t refused;     /* entries that await a RESEND, a bit each */

    uint8_t *small; /* acks, pings and small replies, encoded */
    uint32_t small_length, small_room, n_small;
    struct ptl_pending *pending; /* what the socket did not take (ptl_out.c) */
};

/* Make a connection around a socket, in the epoll set. NULL: no memory; the
 * socket is closed. */
struct ptl_conn *ptl_conn_alloc (struct ptl_end *end, int fd, bool is_dialled,
                                 bool is_unix);

/* Begin a connection to a peer.
 *   0, or an errno
 */
int ptl_conn_dial (struct ptl_peer *peer);

/* Go on at once with what was dialled if it is connected: on one host it is when
 * connect returns. */
void ptl_conn_look (struct ptl_conn *conn);

/* The socket is ready: `events` as epoll gives them. */
void ptl_conn_ready (struct ptl_conn *conn, uint32_t events);

/* Something is to be sent; ptl_end_settle writes it. */
void ptl_conn_kick (struct ptl_conn *conn);

/* recvmsg and sendmsg, or the same from and to the rings of shared memory. */
ssize_t ptl_conn_receive (struct ptl_conn *conn, struct iovec *parts,
                          int count);
ssize_t ptl_conn_send (struct ptl_conn *conn, struct iovec *parts, int count);

/* Has all that we wrote reached the host of the peer? */
bool ptl_conn_is_flushed (const struct ptl_conn *conn);

/* The connection is lost for this reason, and its peer or dial with it. */
void ptl_conn_fail (struct ptl_conn *conn, uint32_t loss, int detail);

/* Close it; operations that were arriving end UNDELIVERABLE. */
void ptl_conn_close (struct ptl_conn *conn);

/* Does an operation arrive for this table entry? */
bool ptl_conn_lands_at (const struct ptl_conn *conn, const struct ptl_ni *ni,
                        unsigned index);

/* Discard the rest of what arrives for entries of this interface. */
void ptl_conn_forget_ni (struct ptl_conn *conn, const struct ptl_ni *ni);

/* Say goodbye: send BYE, end our stream, wait for the end of the peer's. */
void ptl_conn_leave (struct ptl_conn *conn);

/* Look at its deadlines at `at_ms` at the latest. */
void ptl_conn_due (struct ptl_conn *conn, int64_t at_ms);

/* Act on the deadlines that have passed. */
void ptl_conn_tick (struct ptl_conn *conn);

void ptl_conn_free (struct ptl_conn *conn);

#endif
