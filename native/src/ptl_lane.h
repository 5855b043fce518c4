/* ptl_lane.h - which of a peer's operations goes next, and what became of it.
 *
 * Operations of one lane are sent in issue order. The control lane goes before
 * the others; in those, fragments of what is under way and beginnings of what
 * is not take turns, so a small put does not wait for a large one. The bulk
 * lane begins an operation only when the one before it has been sent.
 *
 * A message that the target's disabled entry refused holds the control lane.
 * The target refuses what followed it until the first of those that are sent
 * again (RESEND) arrives, so nothing overtakes.
 */
#ifndef PTL_LANE_H
#define PTL_LANE_H

#include <stdbool.h>
#include <stdint.h>

#define PTL_HOLD_FIRST_MS 1

struct ptl_frame;
struct ptl_op;
struct ptl_peer;

/* The next frame to send, if any: header fields and payload. */
bool ptl_lane_pick (struct ptl_peer *peer, struct ptl_frame *frame,
                    struct ptl_op **opp, const uint8_t **payload);

/* A frame of this operation has left; `is_last` with its last byte. */
void ptl_lane_frame_sent (struct ptl_op *op, bool is_last);

/* An ack has arrived. The peer may be freed by it, when it is leaving.
 *   PTL_OK, PTL_FAIL (it names no operation of this peer) */
int ptl_lane_ack (struct ptl_peer *peer, const struct ptl_frame *frame);

/* Send again what was refused, when everything that was under way has been
 * answered and the pause is over. */
void ptl_lane_release (struct ptl_peer *peer);

#endif
