/* ptl_op.h - an operation that this endpoint began, or a reply that it owes.
 *
 * Life: waiting on a counter (triggered) -> in the endpoint's work queue ->
 * in a lane of its target -> perhaps open (sent in fragments) -> awaiting its
 * answer (ack or reply) -> ended. Its index and generation are on the wire; an
 * answer is looked up in our own table, so a peer never names a pointer.
 *
 * Ended operations are kept for the next ones: none allocates memory once
 * there have been as many as are under way.
 */
#ifndef PTL_OP_H
#define PTL_OP_H

#include "portals4_ext.h"
#include "ptl_list.h"
#include "ptl_wire.h"

struct ptl_end;
struct ptl_mem;
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
    struct ptl_ni *counted; /* in whose triggered operations it counts */
};

static inline void ptl_work_discard (struct ptl_work *work)
{
    work->discard (work);
}

/* What the maker of an operation is told. */
struct ptl_op_class {
    void (*sent) (struct ptl_op *op); /* its memory can be used again */
    void (*ended) (struct ptl_op *op, int fail, uint64_t mlength,
                   uint64_t offset); /* op is freed afterwards */
    void (*release) (struct ptl_op *op); /* no memory is used any more */
};

enum ptl_op_state {
    PTL_OP_HELD,    /* not yet given to a peer */
    PTL_OP_QUEUED,  /* in a lane */
    PTL_OP_SENDING, /* picked for the socket */
    PTL_OP_SENT     /* awaits its answer */
};

struct ptl_op {
    struct ptl_work work; /* first: its node is in the list of the state */
    struct ptl_end *end;
    const struct ptl_op_class *class;
    struct ptl_peer *peer; /* from QUEUED on */
    uint32_t nid, pid;
    uint32_t index, generation; /* here */
    uint32_t wire_index, wire_generation; /* at the initiator */
    uint32_t fragment; /* the next to be sent, or to arrive of the reply */
    uint8_t type;      /* enum ptl_frame_type */
    uint8_t state;     /* enum ptl_op_state */
    uint8_t kind, lane, pt_index;
    uint8_t ack;       /* ptl_ack_req_t */
    uint8_t flags, operation, datatype;
    uint8_t list;      /* ptl_list_t at the target, once answered */
    uint8_t operand_bytes; /* before the data, at the end of `copy` */
    bool is_volatile; /* copied when it starts */
    bool is_pooled;
    const uint8_t *data;       /* one piece, or NULL */
    const struct ptl_mem *mem; /* else: a vector, from `at` */
    uint64_t at;
    uint64_t length;   /* of the data, or wanted */
    uint64_t total;    /* of the reply */
    uint64_t position; /* bytes given to frames; SENT: of the reply here */
    uint64_t match_bits, offset, hdr_data;
    const struct ptl_mem *get_mem; /* where the reply goes, or NULL */
    uint64_t get_at;               /* in get_mem */
    struct ptl_ni *ni;     /* whose memory it uses, or NULL */
    struct ptl_md *md;     /* its maker's: of the data, or NULL */
    struct ptl_md *get_md; /* its maker's: of the reply, or NULL */
    void *user_ptr, *owner;
    uint8_t copy[] __attribute__ ((aligned (8)));
};

#define PTL_OPS_MAX (1u << 21) /* triggered ones included */

/* The operations of an endpoint by index. */
struct ptl_op_table {
    struct ptl_op **slots;
    uint32_t *generations;
    uint32_t *free_list; /* stack of unused indices */
    uint32_t size, n_free;
    struct ptl_work *spare; /* ended operations, by node.next */
    unsigned n_spare;
};

/* Make an operation (a PUT) with room for a copy of `extra` bytes. NULL: no
 * memory. */
struct ptl_op *ptl_op_alloc (struct ptl_end *end,
                             const struct ptl_op_class *class, size_t extra);

/* The operation whose work this is; NULL: it is other work. */
struct ptl_op *ptl_op_of (struct ptl_work *work);

/* The operation that an answer names, or NULL. */
struct ptl_op *ptl_op_find (struct ptl_end *end, uint32_t index,
                            uint32_t generation);

/* Is it answered, by an ack or a reply? */
static inline bool ptl_op_is_answered (const struct ptl_op *op)
{
    return op->ack != PTL_NO_ACK_REQ || op->type == PTL_FRAME_GET
        || op->type == PTL_FRAME_FETCH;
}

/* Its data is `length` bytes of this memory. */
void ptl_op_set_data (struct ptl_op *op, const struct ptl_mem *mem,
                      uint64_t at, uint64_t length);

/* The data at a position, and how many bytes follow in one piece. */
const uint8_t *ptl_op_span (const struct ptl_op *op, uint64_t position,
                            uint64_t *room);

/* Copy data out; the bytes must be within the length. */
void ptl_op_read (const struct ptl_op *op, uint64_t position, void *to,
                  uint64_t length);

/* Send it to its target, or to ourselves by the work queue. With `may_follow`
 * more operations come at once: they are written together. */
void ptl_op_start (struct ptl_op *op, bool may_follow);

/* Its last byte is in the socket. Frees it when no answer comes. */
void ptl_op_sent (struct ptl_op *op);

/* It has ended: tell the maker and free it. */
void ptl_op_end (struct ptl_op *op, int fail, uint64_t mlength,
                 uint64_t offset);

/* Its maker is gone: tell nobody, and do not use its memory. */
void ptl_op_orphan (struct ptl_op *op);

/* Free it and tell nobody. */
void ptl_op_discard (struct ptl_op *op);

void ptl_op_table_free (struct ptl_op_table *table);

#endif
