/* ptl_answer.h - acks, pings and small replies that wait to be sent.
 *
 * They are encoded at once into one buffer of the connection, which exists
 * while something is in it, and are sent before operations. A peer is owed no
 * more answers than it has operations: one that lets more of them pile up is
 * cut off, so the buffer is bounded.
 */
#ifndef PTL_ANSWER_H
#define PTL_ANSWER_H

#include "ptl_conn.h"

/* Queue a frame without payload. */
void ptl_answer_send (struct ptl_conn *conn, const struct ptl_frame *frame);

/* Queue a frame with a small payload: where to write the payload, or NULL when
 * the connection has ended. */
uint8_t *ptl_answer_reserve (struct ptl_conn *conn,
                             const struct ptl_frame *frame);

/* Queue the ack of an operation that went well. It goes with the next frame
 * that is sent there, at the latest after config.ack_delay_ms: an ack by itself
 * is a system call here and a wake-up at the other end. */
void ptl_answer_ack (struct ptl_conn *conn, const struct ptl_frame *frame);

/* Send acks that have waited long enough. */
void ptl_answer_tick (struct ptl_conn *conn);

/* All that is queued has been copied to where it is sent from. */
void ptl_answer_clear (struct ptl_conn *conn);

#endif
