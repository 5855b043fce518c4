/* ptl_arrival.h - an operation that arrives, and who began it.
 *
 * The room of interfaces decides where it goes (ptl_above.h) and fills it in;
 * connections put the bytes there.
 */
#ifndef PTL_ARRIVAL_H
#define PTL_ARRIVAL_H

#include <stdbool.h>
#include <stdint.h>

struct ptl_header;
struct ptl_me;
struct ptl_mem;
struct ptl_ni;

/* Who a peer has proven to be. */
struct ptl_who {
    uint32_t nid, pid; /* its name here: an alias if not proven */
    uint32_t kind;     /* enum ptlx_key_kind, LOCAL as USER; */
    uint32_t uid;
    uint64_t job_id;
    uint64_t serial; /* of the connection; 0: ourselves */
};

/* An operation that is arriving. It may be copied, and ended by the copy. */
struct ptl_rx {
    struct ptl_me *me; /* NULL: refused, the payload is thrown away */
    struct ptl_ni *ni; /* of the entry */
    struct ptl_header *header; /* that it leaves (ptl_unexpected.h), or NULL */
    const struct ptl_mem *mem; /* of the entry: where it goes */
    uint8_t *start; /* the first byte of it */
    uint64_t offset, mlength; /* within the entry */
    uint64_t length, received;
    uint64_t remote_offset; /* as the initiator wished it */
    uint64_t match_bits, hdr_data;
    int64_t begun_ms; /* as ptl_end_own_ms */
    uint32_t op_index, op_generation, next_fragment;
    uint8_t fail; /* ptl_ni_fail_t */
    uint8_t type; /* PTL_FRAME_PUT, GET, ATOMIC or FETCH */
    uint8_t operation, datatype; /* of ATOMIC and FETCH */
    uint8_t pt_index, ack, lane;
    uint8_t list;     /* ptl_list_t that the entry is in */
    uint8_t promised; /* slots of the table entry's queue */
    bool is_open;     /* more fragments are to come */
    bool is_ack_disabled; /* by the entry */
    bool is_last;         /* it has used the entry up */
};

#endif
