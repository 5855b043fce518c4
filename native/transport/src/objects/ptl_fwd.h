/* ptl_fwd.h - an object on its way down a tree.
 *
 * Receiver: one match entry over the mapped file, one counter of chunks, and
 * per child a triggered put of chunk k at threshold k + 1; a few hundred of
 * them exist at a time. Chunks come in order from one parent, so the count says
 * which have landed. They are hashed in order after they have been passed on.
 * When all have landed the writable mapping goes (a file that is open for
 * writing cannot be executed) and a read-only one takes its place until the
 * children have everything.
 *
 * Source: chunks are read with pread into a few buffers as they drain. A map
 * of a file that shrinks would be SIGBUS.
 *
 * The objects of one job share what memory it may take (ptl_fwd_turn.h).
 */
#ifndef PTL_FWD_H
#define PTL_FWD_H

#include "portals4_ext.h"

#define PTL_PT_MESSAGES 0
#define PTL_PT_OBJECTS 1

struct ptl_end;

/* Results as PtlxForward. */
int ptl_fwd_arm (struct ptl_end *end, const struct ptlx_object *object);

/* No event follows. */
void ptl_fwd_cancel (struct ptl_end *end, uint64_t match_bits);

/* The connection with this serial is gone: fail objects whose parent it was. */
void ptl_fwd_peer_lost (struct ptl_end *end, uint64_t serial);

/* Only at the end of the endpoint, after its connections. */
void ptl_fwd_free_all (struct ptl_end *end);

#endif
