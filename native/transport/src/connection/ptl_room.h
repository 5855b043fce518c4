/* ptl_room.h - descriptors for new connections, taken from idle ones.
 *
 * An end that is out of descriptors asks the peer that has been silent longest
 * to close: a PING that says so, after which it begins nothing new there. A
 * peer with nothing under way answers BYE, another one PONG, and the connection
 * stays. By then all that either end had sent has been read, so nothing is
 * lost; what is sent later dials again.
 *
 * Only ends that are told of no peers (ptl_end.notify) do so: to the others the
 * end of a connection means that the peer has gone. They are told of daemons
 * with which nothing was exchanged for idle_ms, and offer what they do not need
 * (PtlxPart). Such a connection is closed in the same way when both ends offer
 * it; the first that asks may be answered PONG, and the other asks in turn.
 */
#ifndef PTL_ROOM_H
#define PTL_ROOM_H

#include <stdbool.h>

struct ptl_conn;
struct ptl_end;

#define PTL_ROOM_AGAIN_MS 20 /* by then a connection may have closed */

/* No descriptor is left: have an idle connection closed soon. False: waiting
 * does not help, this end closes none or can have none. */
bool ptl_room_make (struct ptl_end *end);

/* A frame of an operation has come: the connection is in use. */
void ptl_room_moved (struct ptl_conn *conn);

/* Tell the owner of this end when the connection is idle. */
void ptl_room_look (struct ptl_conn *conn);

/* This end does not need the connection, until something moves. */
void ptl_room_offer (struct ptl_conn *conn);

/* Ask peers to close, one for each descriptor that was missing. */
void ptl_room_tick (struct ptl_end *end);

/* Are so many dials under way that one more may use the descriptor that is
 * needed to accept a peer's? If all ends did that, all would wait for ever. */
bool ptl_room_is_crowded (struct ptl_end *end);

/* The peer asks to close. True: goodbye has been said. */
bool ptl_room_grant (struct ptl_conn *conn);

/* The peer has said goodbye because we asked. */
void ptl_room_parted (struct ptl_conn *conn);

/* The peer keeps the connection: go on. */
void ptl_room_stay (struct ptl_conn *conn);

/* Tell the user once that there are too few descriptors. */
void ptl_room_complain (void);

#endif
