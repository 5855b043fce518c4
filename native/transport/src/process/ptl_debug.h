/* ptl_debug.h - what PTL_DEBUG=on says: why what is sent to a peer is lost.
 *
 * Portals has one word for all reasons, PTL_NI_UNDELIVERABLE. Only programs that
 * made their interfaces by PtlNIInit are told; others have events.
 */
#ifndef PTL_DEBUG_H
#define PTL_DEBUG_H

#include <stdbool.h>
#include <stdint.h>

struct ptl_end;

/* A peer is lost: enum ptlx_loss and its detail. `was_busy`: something was on
 * its way. An end in order is worth a line only then. */
void ptl_debug_lost (const struct ptl_end *end, uint32_t nid, uint32_t pid,
                     uint32_t loss, int detail, bool was_busy);

#endif
