/* ptl_peer.h - a peer: its connection and the operations that go to it.
 *
 * A record exists while there is a connection, a dial or an operation. It is
 * found by the id under which our side knows the peer: the one that was
 * dialled, or the one that it named and may name (ptl_admit.h). What is sent
 * when is ptl_lane.h's.
 */
#ifndef PTL_PEER_H
#define PTL_PEER_H

#include "ptl_due.h"
#include "ptl_list.h"
#include "ptl_wire.h"

struct ptl_end;
struct ptl_op;
struct ptl_conn;
struct ptl_frame;

struct ptl_peer {
    struct ptl_peer *next; /* in the hash chain */
    struct ptl_end *end;
    struct ptl_due due; /* in end->peer_dues */
    uint32_t nid, pid;
    struct ptl_conn *conn; /* proven, or NULL */
    uint32_t uid;          /* 0, or of the user in whose share it is */
    struct ptl_conn *dial; /* being opened by us, or NULL */
    int64_t dial_until_ms; /* 0: no dial is wanted */
    int64_t dial_again_ms; /* 0: no dial is planned */
    int dial_pause_ms;     /* the pause before that, if turned away */
    int dial_error;        /* an errno: why the last dial did not begin */
    uint8_t dial_code;     /* enum ptl_code: why it was turned away, or 0 */
    struct ptl_node lanes[PTL_LANES]; /* QUEUED */
    struct ptl_node replies; /* QUEUED, of operations of the peer */
    struct ptl_node open;  /* SENDING in fragments, round robin */
    struct ptl_node sending; /* the last frame is on its way */
    struct ptl_node sent;  /* SENT */
    struct ptl_node retry; /* refused, in order */
    struct ptl_node after; /* for the next connection: this one is leaving */
    unsigned unacked;      /* operations whose answer is awaited */
    uint32_t fetching;     /* bytes of FETCHes among them */
    unsigned n_owed;       /* replies that are operations */
    uint32_t owed_bytes;   /* of their copies */
    unsigned n_open;
    unsigned n_retryable; /* of unacked, those that hold the lane */
    int64_t hold_until_ms; /* 0: not held */
    int hold_ms;           /* how long the next time */
    bool is_leaving;       /* say goodbye when everything is acked */
    bool fragments_turn, replies_turn;
};

/* Queue an operation at its peer; dial when there is no connection. With
 * `may_follow` it waits in its lane for those that come at once, and they are
 * written together. */
void ptl_peer_queue (struct ptl_end *end, struct ptl_op *op, bool may_follow);

/* The record for an id, or NULL. */
struct ptl_peer *ptl_peer_find (struct ptl_end *end, uint32_t nid,
                                uint32_t pid);

/* A new record. NULL: no memory. */
struct ptl_peer *ptl_peer_alloc (struct ptl_end *end, uint32_t nid,
                                 uint32_t pid);

/* Give a dial up and tell nobody. */
void ptl_peer_abandon_dial (struct ptl_peer *peer);

/* A connection has been proven: one that we dialled, or one that was
 * admitted. */
void ptl_peer_connected (struct ptl_peer *peer);

/* Our dial crossed one of the peer's, which survives instead. */
void ptl_peer_collided (struct ptl_peer *peer);

/* The other end had no place for our dial (a code of m4): dial again until the
 * time is over. */
void ptl_peer_turned_away (struct ptl_peer *peer, uint8_t code);

/* Is anything on its way there, or to be sent? */
bool ptl_peer_is_busy (const struct ptl_peer *peer);

/* Its connection has been closed with nothing under way (ptl_room.h). Dial
 * again when something is to be sent, else free the record. */
void ptl_peer_parted (struct ptl_peer *peer);

/* The peer is gone: every operation ends UNDELIVERABLE, one event says why,
 * the record is freed. */
void ptl_peer_lost (struct ptl_peer *peer, uint32_t loss, int detail);

/* Say goodbye once everything is acknowledged. */
void ptl_peer_leave (struct ptl_peer *peer);

/* We have sent everything to a peer that leaves. Ask for the acks, which it may
 * delay: they come before the pong. */
void ptl_peer_hurry (struct ptl_peer *peer);

/* Look at its deadlines at `at_ms` at the latest. */
void ptl_peer_due (struct ptl_peer *peer, int64_t at_ms);

/* Act on deadlines that have passed; may free the peer. */
void ptl_peer_tick (struct ptl_peer *peer);

/* Free a record that nothing needs any more. */
void ptl_peer_drop_idle (struct ptl_peer *peer);

#endif
