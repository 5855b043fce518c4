/* ptl_serve.h - the target's side of gets and atomic operations.
 *
 * Small replies are copied behind the acks as soon as they are known, larger
 * ones are operations (ptl_op.h): that of a GET reads the entry's memory while
 * it is sent, so that the entry is busy until then; that of a FETCH has a copy
 * of what was there before.
 */
#ifndef PTL_SERVE_H
#define PTL_SERVE_H

#include <stdint.h>

struct ptl_conn;
struct ptl_frame;
struct ptl_rx;

/* A GET has arrived. */
void ptl_serve_get (struct ptl_conn *conn, const struct ptl_frame *frame);

/* An ATOMIC or a FETCH has arrived with its payload. */
void ptl_serve_atomic (struct ptl_conn *conn, const struct ptl_frame *frame,
                       const uint8_t *payload);

/* Carry an atomic operation out. Operand (read only where one is needed) and
 * data have the request's length; where the entry is shorter, whole elements
 * are changed. */
void ptl_serve_apply (const struct ptl_rx *rx, const uint8_t *operand,
                      const uint8_t *data);

/* Answer an operation that asked for an ack. */
void ptl_serve_ack (struct ptl_conn *conn, const struct ptl_rx *rx, int fail);

#endif
