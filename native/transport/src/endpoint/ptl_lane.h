/* ptl_lane.h - which of a peer's operations goes next, and what became of it.
 *
 * Operations of one lane are sent in issue order. The control lane goes before
 * the others; in those, fragments of what is under way and beginnings of what
 * is not take turns, so a small put does not wait for a large one. Replies take
 * turns with the beginnings of the data lane. The bulk lane begins an operation
 * only when the one before it has been sent.
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
#define PTL_SEALED_REPLY_MOST (16u * 1024) /* of a frame: it is copied */

struct ptl_frame;
struct ptl_op;
struct ptl_peer;

/* The operation of which a frame is to be sent next, or NULL. */
struct ptl_op *ptl_lane_pick (struct ptl_peer *peer);

/* Does nothing wait that has to be sent before this operation? */
bool ptl_lane_is_free (const struct ptl_peer *peer, const struct ptl_op *op);

/* Take its next frame: header fields, and where its data begins. The operation
 * is in a list of the peer until ptl_op_sent. */
void ptl_lane_take (struct ptl_peer *peer, struct ptl_op *op,
                    struct ptl_frame *frame, uint64_t *position);

/* An ack, or the first frame of a reply, has arrived: the operation that it
 * answers, or NULL (it names none of this peer that awaits it). */
struct ptl_op *ptl_lane_awaiting (struct ptl_peer *peer,
                                  const struct ptl_frame *frame);

/* The answer is complete. Frees a peer that was only waiting for it to
 * leave. */
void ptl_lane_answered (struct ptl_peer *peer, struct ptl_op *op, int fail,
                        uint64_t mlength, uint64_t offset);

/* Send refused operations again, when everything under way has been answered
 * and the pause is over. */
void ptl_lane_release (struct ptl_peer *peer);

#endif
