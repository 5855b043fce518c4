/* ptl_eq.h - event queue: a ring of completion events.
 *
 * A full ring never blocks the producer: the oldest event is overwritten and
 * the next get reports PTL_EQ_DROPPED once. Events that must not be lost
 * (flow control, auto-unlink, lost peers, objects) make the ring grow; their
 * number is bounded by the objects they tell of.
 */
#ifndef PTL_EQ_H
#define PTL_EQ_H

#include <stdbool.h>

#include "portals4_ext.h"
#include "ptl_list.h"

struct ptl_ni;

struct ptl_eq {
    struct ptl_node node; /* in ni->eqs */
    struct ptl_ni *ni;
    uint32_t handle;
    unsigned users; /* table entries and descriptors that post here */
    struct ptlx_event *slots;
    size_t count; /* slots asked for */
    size_t size;  /* slots there are */
    size_t head, used;
    size_t reserved; /* slots beyond count: one per entry with flow control */
    size_t promised; /* arrivals under way that will post */
    bool dropped;
};

/* PTL_OK, PTL_ARG_INVALID (count 0 or above 2^20), PTL_NO_SPACE. */
int ptl_eq_alloc (struct ptl_ni *ni, size_t count, struct ptl_eq **eqp);

/* Free it. Unread events are discarded; nothing is posted here any more. */
void ptl_eq_free (struct ptl_eq *eq);

/* Reserve room for one more event, so that it needs no memory later. False: no
 * memory. */
bool ptl_eq_reserve (struct ptl_eq *eq);
void ptl_eq_unreserve (struct ptl_eq *eq);

void ptl_eq_post (struct ptl_eq *eq, const struct ptlx_event *event);
void ptl_eq_post_surely (struct ptl_eq *eq, const struct ptlx_event *event);

/* Take the oldest event.
 *   PTL_OK          *event is the next event
 *   PTL_EQ_DROPPED  likewise; at least one before it was lost
 *   PTL_EQ_EMPTY    *event is untouched
 */
int ptl_eq_get (struct ptl_eq *eq, struct ptlx_event *event);

/* Is the oldest event of this type? */
bool ptl_eq_next_is (const struct ptl_eq *eq, uint32_t type);

#endif
