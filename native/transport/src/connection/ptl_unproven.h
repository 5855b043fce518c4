/* ptl_unproven.h - limits on connections that have not proven who they are.
 *
 * At most config.max_unproven inbound connections are in a handshake, and
 * config.max_unproven_each of one origin (a user or an address: ptl_origin.h).
 * One more of that origin ends the oldest of its own: a handshake takes no
 * time, so the oldest is unlikely to finish. When all places are taken, the
 * origin that has most loses one to an origin that has fewer.
 *
 * A connection that is turned away is told why, by the code of m4.
 */
#ifndef PTL_UNPROVEN_H
#define PTL_UNPROVEN_H

#include <stdint.h>

#include "ptl_auth.h"
#include "ptl_list.h"

struct ptl_conn;
struct ptl_end;
struct ptl_origin;

/* The place of one connection. */
struct ptl_place {
    struct ptl_node node; /* of its origin's, the oldest first */
    struct ptl_conn *conn;
    struct ptl_origin *origin; /* NULL: it has none, we dialled */
};

/* Find room for one more connection of an origin. PTL_CODE_READY, or the code
 * to refuse it with. */
enum ptl_code ptl_unproven_make_room (struct ptl_end *end, uint64_t origin);

/* Take a place. False: no memory. */
bool ptl_unproven_enter (struct ptl_end *end, uint64_t origin,
                         struct ptl_place *place);

/* Give it back: proven, or ended. */
void ptl_unproven_leave (struct ptl_end *end, struct ptl_place *place);

#endif
