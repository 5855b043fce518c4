/* ptl_room.h - descriptors for those who need them, from connections that idle.
 *
 * An end that is out of descriptors asks the peer that it has not heard for
 * longest to part: a PING that says so, and after it nothing that begins
 * anything. A peer with nothing under way answers BYE, another one PONG, and all
 * goes on. All that either end had sent has then been read, so nothing is lost;
 * what is sent later dials again.
 *
 * Only ends do so that are told of no peers (ptl_end.notify): for the others
 * the end of a connection means something.
 */
#ifndef PTL_ROOM_H
#define PTL_ROOM_H

#include <stdbool.h>

struct ptl_conn;
struct ptl_end;

#define PTL_ROOM_AGAIN_MS 20 /* until then a connection may have been closed */

/* No descriptor is left: have an idle connection closed soon, when there is one.
 * False: this end closes none, or has room for none: waiting is for nothing. */
bool ptl_room_make (struct ptl_end *end);

/* Ask as many peers to part as descriptors were missing since the last time. */
void ptl_room_tick (struct ptl_end *end);

/* With too few descriptors: are so many dials under way that one more may take
 * that with which a peer's is answered? If all did, all would wait for ever. */
bool ptl_room_is_crowded (struct ptl_end *end);

/* The peer asks to part. True: goodbye has been said. */
bool ptl_room_grant (struct ptl_conn *conn);

/* The peer has said goodbye because we asked. */
void ptl_room_parted (struct ptl_conn *conn);

/* The peer stays, and so do we. */
void ptl_room_stay (struct ptl_conn *conn);

/* Tell the user, once, that there are too few. */
void ptl_room_complain (void);

#endif
