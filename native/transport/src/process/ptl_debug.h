/* ptl_debug.h - PTL_DEBUG=on: tell why a peer was lost.
 *
 * Portals has one code for all reasons, PTL_NI_UNDELIVERABLE. Only programs
 * that made their interfaces by PtlNIInit are told here; others have events.
 */
#ifndef PTL_DEBUG_H
#define PTL_DEBUG_H

#include <stdbool.h>
#include <stdint.h>

struct ptl_end;

/* A peer is lost, for a reason of enum ptlx_loss with its detail. `was_busy`:
 * something was on its way. An orderly end is told only then. */
void ptl_debug_lost (const struct ptl_end *end, uint32_t nid, uint32_t pid,
                     uint32_t loss, int detail, bool was_busy);

#endif
