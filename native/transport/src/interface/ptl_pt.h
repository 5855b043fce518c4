/* ptl_pt.h - portal table: where an arriving operation finds its entry.
 *
 * The table has one entry per index of the interface. An operation
 * begins (is matched, or refused) with its first frame and ends with its
 * last byte or with the death of its initiator.
 */
#ifndef PTL_PT_H
#define PTL_PT_H

#include "portals4_ext.h"
#include "ptl_list.h"
#include "ptl_wire.h"

#define PTL_PT_COUNT 64 /* unless a limit says otherwise */

struct ptl_end;
struct ptl_ni;
struct ptl_eq;
struct ptl_header;
struct ptl_me;
struct ptl_mem;

struct ptl_pt {
    bool is_allocated, is_enabled;
    unsigned options;
    struct ptl_eq *eq; /* NULL: there was none, or it has been freed */
    struct ptl_node priority, overflow; /* of struct ptl_me */
    int n_linked[PTL_OVERFLOW_LIST + 1]; /* in each of them */
    struct ptl_node unexpected; /* of struct ptl_header */
    struct ptl_node taken; /* headers whose bytes still land */
    unsigned users; /* entries, linked or not */
    unsigned busy;  /* operations under way */
};

/* Who a peer has proven to be. */
struct ptl_who {
    uint32_t nid, pid; /* as known here: an alias where the id is not proven */
    uint32_t kind;     /* enum ptlx_key_kind, LOCAL as USER; */
    uint32_t uid;
    uint64_t job_id;
    uint64_t serial; /* of the connection; 0: ourselves */
};

/* An operation that is arriving. It may be copied and ended by the copy. */
struct ptl_rx {
    struct ptl_me *me; /* NULL: refused, the payload is thrown away */
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

/* Allocate an entry; `wanted` or, for PTL_PT_ANY, the first free one.
 *   PTL_OK, PTL_ARG_INVALID, PTL_PT_IN_USE, PTL_PT_FULL, PTL_PT_EQ_NEEDED
 */
int ptl_pt_alloc (struct ptl_ni *ni, unsigned options, struct ptl_eq *eq,
                  uint32_t wanted, uint32_t *index);

/* PTL_OK, PTL_ARG_INVALID, PTL_PT_IN_USE (there are entries, or headers). */
int ptl_pt_free (struct ptl_ni *ni, uint32_t index);

/* Post an event about what happens here; with FLOWCTRL none is lost. */
void ptl_pt_post (struct ptl_ni *ni, uint32_t index,
                  const struct ptlx_event *event);

/* Count an operation that is not let in, in the register of that reason. */
void ptl_pt_count_refusal (struct ptl_ni *ni, int fail);

/* Match an operation by its first frame. */
void ptl_pt_begin (struct ptl_end *end, const struct ptl_who *who,
                   const struct ptl_frame *frame, struct ptl_rx *rx);

/* A fragment after the first brings `length` bytes. */
void ptl_pt_go_on (struct ptl_rx *rx, uint32_t length);

/* It has ended: all has landed, or `fail` says why not. */
void ptl_pt_end (const struct ptl_who *who, struct ptl_rx *rx, int fail);

#endif
