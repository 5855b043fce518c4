/* ptl_above.h - what an endpoint asks of those who use it.
 *
 * Endpoints, connections and shared memory know nothing of interfaces, objects
 * and the process that they serve: whoever makes an endpoint gives it this
 * table (ptl_ends.c). All functions are called with the lock held.
 */
#ifndef PTL_ABOVE_H
#define PTL_ABOVE_H

#include <stdbool.h>
#include <stdint.h>

#include "portals4_ext.h"

struct ptl_end;
struct ptl_eq;
struct ptl_frame;
struct ptl_rx;
struct ptl_who;

struct ptl_above {
    /* An operation arrives: find where it goes, by its first frame. */
    void (*begin) (struct ptl_end *end, const struct ptl_who *who,
                   const struct ptl_frame *frame, struct ptl_rx *rx);
    /* A fragment after the first brings `length` bytes. */
    void (*go_on) (struct ptl_rx *rx, uint32_t length);
    /* It has ended: all has landed, or `fail` (ptl_ni_fail_t) says why not. */
    void (*finish) (const struct ptl_who *who, struct ptl_rx *rx, int fail);

    /* Post an event about a peer or an object; it must not be lost. */
    void (*post) (struct ptl_eq *queue, const struct ptlx_event *event);
    /* The connection with this serial is gone. */
    void (*disconnected) (struct ptl_end *end, uint64_t serial);
    /* A peer is lost, for a reason of enum ptlx_loss. `was_busy`: something was
     * on its way. */
    void (*lost) (const struct ptl_end *end, uint32_t nid, uint32_t pid,
                  uint32_t loss, int detail, bool was_busy);
    /* A thread has called PtlAbort: its descriptor is readable. */
    void (*aborted) (struct ptl_end *end);

    /* The endpoint is about to end: nobody waits on it any more, nor keeps a
     * bundle open. */
    void (*ending) (struct ptl_end *end);
    /* Its connections have ended: free the objects and interfaces on it. */
    void (*ended) (struct ptl_end *end);
};

#endif
