/* ptl_move.h - the initiator's side of data movement: from and into memory
 * descriptors, at once or when a counter says so, and messages of our own. */
#ifndef PTL_MOVE_H
#define PTL_MOVE_H

#include <stdbool.h>

#include "portals4_ext.h"
#include "ptl_wire.h"

struct ptl_ct;
struct ptl_end;
struct ptl_md;

/* What a call asks for. */
struct ptl_move {
    enum ptl_frame_type type; /* PUT, GET, ATOMIC or FETCH */
    struct ptl_md *md;     /* of the data; GET: NULL */
    struct ptl_md *get_md; /* of the reply, or NULL */
    uint64_t at, get_at, length;
    ptl_ack_req_t ack;
    ptl_process_t target;
    uint32_t pt_index;
    uint64_t match_bits, remote_offset, hdr_data;
    void *user_ptr;
    bool is_swap;
    ptl_op_t operation;
    ptl_datatype_t datatype;
    const void *operand; /* read only where one is needed */
    struct ptl_ct *trigger; /* NULL: at once */
    uint64_t threshold;
};

/* Begin it, or wait for its trigger.
 *
 * PTL_OK
 *
 * PTL_ARG_INVALID: bytes outside a descriptor, a limit, an ack without its
 * queue or counter, the target, the operation and type
 *
 * PTL_NO_SPACE: no memory, or too many operations wait for counters
 */
int ptl_move (const struct ptl_move *move);

/* Send a copy of a message; PTL_OK, PTL_ARG_INVALID, PTL_NO_SPACE. */
int ptl_move_message (struct ptl_end *end, uint32_t nid, uint32_t pid,
                      const void *data, size_t length);

#endif
