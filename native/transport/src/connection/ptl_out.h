/* ptl_out.h - frames into the socket.
 *
 * A batch (ptl_batch.h) goes with one send. What the socket does not take is
 * kept, flat bytes as a copy, and is sent before anything else. An operation
 * whose bytes have been copied counts as sent.
 */
#ifndef PTL_OUT_H
#define PTL_OUT_H

#include "ptl_conn.h"

/* Write as much as the socket takes. */
void ptl_out_flush (struct ptl_conn *conn);

/* Write this operation now, past the lanes: where nothing waits that should go
 * before it or with it, and it is small. False: it has to wait for its turn.
 * The operation and the connection may have ended afterwards. */
bool ptl_out_write_alone (struct ptl_conn *conn, struct ptl_op *op);

#endif
