/* ptl_batch.h - what one send takes: frames, encoded, with their payloads.
 *
 * Headers and small payloads are copied into the endpoint's flat buffer; of
 * large payloads the batch names the place. Answers come first, then what the
 * peer's lanes choose.
 */
#ifndef PTL_BATCH_H
#define PTL_BATCH_H

#include "ptl_conn.h"
#include "ptl_seal.h"

#define PTL_BATCH_PARTS 64
#define PTL_INLINE_BYTES 4096 /* larger payloads are not copied */

/* Room in the flat buffer that one frame without a large payload takes. */
#define PTL_FRAME_MOST                                                      \
    (PTL_HEADER_BYTES + PTL_OPERAND_MOST + PTL_INLINE_BYTES                 \
     + 2 * PTL_SEAL_BYTES)

/* Consecutive bytes: of the flat buffer, or of an operation's data. */
struct ptl_part {
    struct ptl_op *op; /* whose data it is, or that is sent with it */
    uint64_t at;       /* in its data; flat: in the buffer */
    size_t length;
    bool is_flat;
    bool is_last; /* with it the operation is sent */
};

struct ptl_batch {
    uint8_t *flat;
    size_t used, bytes;
    unsigned n;
    bool is_all; /* nothing more is to be sent now */
    struct ptl_part parts[PTL_BATCH_PARTS];
};

/* Fill a batch with what is to be sent now, as much as fits. */
void ptl_batch_fill (struct ptl_conn *conn, struct ptl_batch *batch);

/* Fill a batch with the next frame of one operation. */
void ptl_batch_fill_one (struct ptl_conn *conn, struct ptl_batch *batch,
                         struct ptl_op *op);

#endif
