/* ptl_op.h - an operation that this interface began.
 *
 * Life: waiting on a counter (triggered) -> in the interface's work queue ->
 * in a lane of its target -> perhaps open (sent in fragments) -> awaiting its
 * ack -> ended. Its index and generation are on the wire; an ack is looked up
 * in our own table, so a peer never names a pointer.
 */
#ifndef PTL_OP_H
#define PTL_OP_H

#include "portals4_ext.h"
#include "ptl_list.h"
#include "ptl_wire.h"

struct ptl_end;
struct ptl_ni;
struct ptl_md;
struct ptl_op;
struct ptl_peer;

/* Something to be run by ptl_end_settle after what happens now, perhaps once a
 * counter has reached a threshold. */
struct ptl_work {
    struct ptl_node node;
    void (*run) (struct ptl_work *work);
    void (*discard) (struct ptl_work *work); /* instead of running */
    uint64_t threshold;
};

static inline void ptl_work_discard (struct ptl_work *work)
{
    work->discard (work);
}

/* What the maker of an operation wants to hear of it. */
struct ptl_op_class {
    void (*sent) (struct ptl_op *op); /* its memory can be used again */
    void (*ended) (struct ptl_op *op, int fail, uint64_t mlength,
                   uint64_t offset); /* op is freed afterwards */
};

enum ptl_op_state {
    PTL_OP_HELD,    /* not yet given to a peer */
    PTL_OP_QUEUED,  /* in a lane */
    PTL_OP_SENDING, /* picked for the socket */
    PTL_OP_SENT     /* awaits its ack */
};

struct ptl_op {
    struct ptl_work work; /* first: its node is in the list of the state */
    struct ptl_end *end;
    const struct ptl_op_class *class;
    struct ptl_peer *peer; /* from QUEUED on */
    uint32_t nid, pid;
    uint32_t index, generation;
    enum ptl_op_state state;
    uint32_t fragment;
    uint8_t kind, lane, pt_index, ack, flags;
    const uint8_t *data;
    uint64_t length;
    uint64_t position; /* bytes given to frames */
    uint64_t match_bits, offset, hdr_data;
    struct ptl_ni *ni; /* whose memory it uses, or NULL */
    struct ptl_md *md; /* or NULL */
    void *user_ptr, *owner;
    uint8_t copy[]; /* of a message */
};

#define PTL_OPS_MAX (1u << 21) /* triggered ones included */

/* The operations of an interface by index. */
struct ptl_op_table {
    struct ptl_op **slots;
    uint32_t *generations;
    uint32_t *free_list; /* stack of unused indices */
    uint32_t size, n_free;
};

/* Make an operation with room for a copy of `extra` bytes. NULL: no memory. */
struct ptl_op *ptl_op_alloc (struct ptl_end *end,
                             const struct ptl_op_class *class, size_t extra);

/* The operation whose work this is; NULL: it is other work. */
struct ptl_op *ptl_op_of (struct ptl_work *work);

/* The operation that an ack names, or NULL. */
struct ptl_op *ptl_op_find (struct ptl_end *end, uint32_t index,
                            uint32_t generation);

/* Send it: to a lane of its target, or to ourselves by the work queue. */
void ptl_op_start (struct ptl_op *op);

/* Its last byte is in the socket. May free it (no ack asked for). */
void ptl_op_sent (struct ptl_op *op);

/* It is over; tells the maker and frees it. */
void ptl_op_end (struct ptl_op *op, int fail, uint64_t mlength,
                 uint64_t offset);

/* Nobody wants to hear of it any more, and its memory is not ours. */
void ptl_op_orphan (struct ptl_op *op);

/* Free it without a word. */
void ptl_op_discard (struct ptl_op *op);

void ptl_op_table_free (struct ptl_op_table *table);

#endif
