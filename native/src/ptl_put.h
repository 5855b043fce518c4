/* ptl_put.h - the initiator's side of a put: from a memory descriptor, at
 * once or when a counter says so, and as a message of our own. */
#ifndef PTL_PUT_H
#define PTL_PUT_H

#include "portals4_ext.h"

struct ptl_end;
struct ptl_md;
struct ptl_ct;

struct ptl_put_args {
    uint64_t local_offset, length;
    ptl_ack_req_t ack;
    uint32_t nid, pid, pt_index;
    uint64_t match_bits, remote_offset, hdr_data;
    void *user_ptr;
};

/* Begin a put; with `trigger`, when it reaches the threshold.
 *   PTL_OK, PTL_ARG_INVALID (outside the descriptor, target), PTL_NO_SPACE
 */
int ptl_put (struct ptl_md *md, const struct ptl_put_args *args,
             struct ptl_ct *trigger, uint64_t threshold);

/* Send a copy of a message; PTL_OK, PTL_ARG_INVALID, PTL_NO_SPACE. */
int ptl_put_message (struct ptl_end *end, uint32_t nid, uint32_t pid,
                     const void *data, size_t length);

#endif
