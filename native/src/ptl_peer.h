/* ptl_peer.h - a peer: its connection and the operations that go to it.
 *
 * A record exists while there is a connection, a dial or an operation. It is
 * found by the id under which our side knows the peer: the one that was
 * dialled, or the one that it named and may name (ptl_peer_admit).
 *
 * Order: operations of one lane are sent in issue order. A message that the
 * target's disabled entry refused holds the lane; the target refuses what
 * followed it, until the first of those that are sent again (RESEND) arrives,
 * so nothing overtakes.
 */
#ifndef PTL_PEER_H
#define PTL_PEER_H

#include "ptl_auth.h"
#include "ptl_list.h"
#include "ptl_wire.h"

struct ptl_ni;
struct ptl_op;
struct ptl_conn;
struct ptl_frame;

struct ptl_peer {
    struct ptl_peer *next; /* in the hash chain */
    struct ptl_ni *ni;
    uint32_t nid, pid;
    struct ptl_conn *conn; /* proven, or NULL */
    struct ptl_conn *dial; /* being opened by us, or NULL */
    int64_t dial_until_ms; /* 0: no dial is wanted */
    int64_t dial_again_ms; /* 0: not waiting to dial again */
    struct ptl_node lanes[PTL_LANES]; /* QUEUED */
    struct ptl_node open;  /* SENDING in fragments, round robin */
    struct ptl_node sent;  /* SENT */
    struct ptl_node retry; /* refused, in order */
    unsigned unacked;      /* operations whose ack is awaited */
    unsigned n_open;
    unsigned n_retryable; /* of unacked, those that hold the lane */
    int64_t hold_until_ms; /* 0: not held */
    int hold_ms;           /* how long the next time */
    bool is_leaving;       /* say goodbye when everything is acked */
    bool fragments_turn;
};

/* Give an operation to its peer, and dial when there is no connection. */
void ptl_peer_queue (struct ptl_ni *ni, struct ptl_op *op);

/* The record for an id, or NULL. */
struct ptl_peer *ptl_peer_find (struct ptl_ni *ni, uint32_t nid,
                                uint32_t pid);

/* The next frame to send, if any: header fields and payload. */
bool ptl_peer_pick (struct ptl_peer *peer, struct ptl_frame *frame,
                    struct ptl_op **opp, const uint8_t **payload);

/* A frame of this operation has left; `is_last` with its last byte. */
void ptl_peer_frame_sent (struct ptl_op *op, bool is_last);

/* An ack has arrived.
 *   PTL_OK, PTL_FAIL (it names no operation of this peer) */
int ptl_peer_ack (struct ptl_peer *peer, const struct ptl_frame *frame);

/* An inbound connection has proven itself: give it a record and the id under
 * which it is known, or the code of a refusal. */
enum ptl_code ptl_peer_admit (struct ptl_conn *conn, uint32_t nid,
                              uint32_t pid);

/* Our dial has been accepted. */
void ptl_peer_connected (struct ptl_peer *peer);

/* Our dial met a connection of the peer's that survives instead. */
void ptl_peer_collided (struct ptl_peer *peer);

/* The peer is gone: every operation ends UNDELIVERABLE, one event says why,
 * the record is freed. */
void ptl_peer_lost (struct ptl_peer *peer, uint32_t loss, int detail);

/* Say goodbye once everything is acknowledged. */
void ptl_peer_leave (struct ptl_peer *peer);

/* Deadlines of one peer; may free it. */
void ptl_peer_tick (struct ptl_peer *peer);

/* Free a record that nothing needs any more. */
void ptl_peer_drop_idle (struct ptl_peer *peer);

#endif
