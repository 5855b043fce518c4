/* ptl_match.h - which operations an entry takes.
 *
 * Reads the entry and the request and changes neither, except that it notes the
 * rank of a request once it has looked it up.
 */
#ifndef PTL_MATCH_H
#define PTL_MATCH_H

#include "ptl_me.h"

/* What an operation, or the header that it left, is matched by. */
struct ptl_request {
    uint32_t nid, pid, uid;
    uint32_t rank; /* of a logical interface, once it has been looked up */
    bool has_rank;
    unsigned needs; /* PTL_ME_OP_PUT, PTL_ME_OP_GET */
    uint64_t match_bits, offset, length;
};

/* Does it match? *offset and *mlength say where and how much. */
bool ptl_match_takes (const struct ptl_me *me, struct ptl_request *request,
                      uint64_t *offset, uint64_t *mlength);

/* Is this initiator permitted this operation? Returns ptl_ni_fail_t. */
int ptl_match_permits (const struct ptl_me *me,
                       const struct ptl_request *request);

/* For an entry whose memory is probed: can an operation that needs `needs` use
 * the `first` bytes of it now, and is all of `mlength` mapped? */
bool ptl_match_reaches (const struct ptl_me *me, unsigned needs,
                        uint64_t offset, uint64_t first, uint64_t mlength);

#endif
