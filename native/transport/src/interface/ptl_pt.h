/* ptl_pt.h - portal table: where an arriving operation finds its entry.
 *
 * The table has one entry per index of the interface. An operation
 * begins (is matched, or refused) with its first frame and ends with its
 * last byte or with the death of its initiator.
 */
#ifndef PTL_PT_H
#define PTL_PT_H

#include "portals4_ext.h"
#include "ptl_arrival.h"
#include "ptl_list.h"
#include "ptl_wire.h"

#define PTL_PT_COUNT 64 /* unless a limit says otherwise */

struct ptl_end;
struct ptl_ni;
struct ptl_eq;

struct ptl_pt {
    bool is_allocated, is_enabled;
    unsigned options;
    struct ptl_eq *eq; /* NULL: none, or it has been freed */
    struct ptl_node priority, overflow; /* of struct ptl_me */
    int n_linked[PTL_OVERFLOW_LIST + 1]; /* in each of them */
    struct ptl_node unexpected; /* of struct ptl_header */
    struct ptl_node taken; /* headers whose bytes still land */
    unsigned users; /* entries, linked or not */
    unsigned busy;  /* operations under way */
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

/* Count a refused operation in the status register of that reason. */
void ptl_pt_count_refusal (struct ptl_ni *ni, int fail);

/* Match an operation by its first frame. */
void ptl_pt_begin (struct ptl_end *end, const struct ptl_who *who,
                   const struct ptl_frame *frame, struct ptl_rx *rx);

/* A fragment after the first brings `length` bytes. */
void ptl_pt_go_on (struct ptl_rx *rx, uint32_t length);

/* It has ended: all has landed, or `fail` says why not. */
void ptl_pt_end (const struct ptl_who *who, struct ptl_rx *rx, int fail);

#endif
