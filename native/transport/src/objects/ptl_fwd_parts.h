/* ptl_fwd_parts.h - what the parts of ptl_fwd.h share: ptl_fwd.c has an
 * object's life and its chunks to the children, ptl_fwd_land.c the receiver,
 * ptl_fwd_read.c the source, ptl_fwd_turn.c what a job's objects share.
 */
#ifndef PTL_FWD_PARTS_H
#define PTL_FWD_PARTS_H

#include "ptl_blake2b.h"
#include "ptl_end.h"
#include "ptl_fwd_turn.h"
#include "ptl_op.h"

#define PTL_SOURCE_BUFFERS 4

struct ptl_fwd {
    struct ptl_work work; /* first: in end->later */
    struct ptl_node node; /* in end->objects */
    struct ptl_end *end;
    struct ptlx_object object; /* children: own copy */
    struct ptl_fwd_turns *turns; /* of its job */
    struct ptl_node turn;        /* among those that wait for a turn */
    uint64_t n_chunks;
    bool is_over;    /* failed, cancelled or complete: no more events */
    bool is_arrived; /* the event has been posted */
    unsigned n_ops;  /* alive */
    int fd;          /* source: the file; receiver: read-only, or -1 */

    uint8_t *map;
    struct ptl_me *me; /* or NULL */
    struct ptl_ct *ct;
    uint64_t parent; /* serial of the connection */
    uint64_t landed, hashed; /* chunks */
    uint64_t armed;          /* chunks whose puts to the children exist */
    struct ptl_blake2b hash;
    int64_t first_ns, last_ns;

    uint64_t next_chunk; /* source: to be read */
    uint64_t buffered;   /* bytes counted for the buffers and their puts */
    uint8_t *buffers[PTL_SOURCE_BUFFERS];
    unsigned users[PTL_SOURCE_BUFFERS];
};

/* Bytes of a chunk; the last may be shorter. */
uint64_t ptl_fwd_chunk_length (const struct ptl_fwd *fwd, uint64_t chunk);

/* Go on with the object once all that is owed has been written. */
void ptl_fwd_do_later (struct ptl_fwd *fwd);

/* Tell the owner. */
void ptl_fwd_notify (struct ptl_fwd *fwd, uint32_t type);

/* Fail it (enum ptlx_object_fail); `op`: the operation that was the cause. */
void ptl_fwd_fail (struct ptl_fwd *fwd, uint32_t reason, int detail,
                   const struct ptl_op *op);

/* A put of a chunk to a child, not yet begun. NULL: no memory. */
struct ptl_op *ptl_fwd_chunk (struct ptl_fwd *fwd, uint64_t chunk,
                              const ptl_process_t *child,
                              const uint8_t *data);

/* Give everything back. */
void ptl_fwd_destroy (struct ptl_fwd *fwd);

/* Do what can be done now. */
int ptl_fwd_arm_receiver (struct ptl_fwd *fwd);
void ptl_fwd_tend_receiver (struct ptl_fwd *fwd);
int ptl_fwd_arm_source (struct ptl_fwd *fwd);
void ptl_fwd_tend_source (struct ptl_fwd *fwd);

#endif
