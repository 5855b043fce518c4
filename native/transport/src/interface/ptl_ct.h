/* ptl_ct.h - counting event: successes and failures, and what waits on them.
 *
 * A triggered operation waits in its counter's list, ordered by threshold,
 * equal thresholds in issue order. When success + failure reaches the
 * threshold it moves to the endpoint's work queue: nothing runs from here,
 * so a chain of triggers needs no stack.
 */
#ifndef PTL_CT_H
#define PTL_CT_H

#include <stdbool.h>

#include "portals4.h"
#include "ptl_list.h"

struct ptl_ni;
struct ptl_work;

struct ptl_ct {
    struct ptl_node node; /* in ni->cts */
    struct ptl_ni *ni;
    uint32_t handle;
    unsigned users; /* entries and descriptors that count here */
    ptl_ct_event_t value;
    struct ptl_node triggers; /* of struct ptl_work */
    struct ptl_node changes; /* increments of it that wait */
};

int ptl_ct_alloc (struct ptl_ni *ni, struct ptl_ct **ctp);

/* Free it. Triggered operations that wait for it are discarded; entries and
 * descriptors that count here stop counting. */
void ptl_ct_free (struct ptl_ct *ct);

void ptl_ct_add (struct ptl_ct *ct, uint64_t success, uint64_t failure);
void ptl_ct_set (struct ptl_ct *ct, ptl_ct_event_t value);

/* Release work when the counter reaches its threshold; perhaps now.
 *   PTL_OK
 *   PTL_NO_SPACE  as many wait as the interface's limit lets; counters that
 *                 have no handle (an object's) do not count
 */
int ptl_ct_trigger (struct ptl_ct *ct, struct ptl_work *work);

/* Take it out of the list and of the interface's count. */
void ptl_ct_withdraw (struct ptl_work *work);

/* Add to a counter, or (`is_set`) set it, when the other one reaches the
 * threshold.
 *
 * PTL_OK, PTL_NO_SPACE
 */
int ptl_ct_change (struct ptl_ct *ct, ptl_ct_event_t value, bool is_set,
                   struct ptl_ct *trigger, uint64_t threshold);

/* Discard the operations that wait. */
void ptl_ct_cancel (struct ptl_ct *ct);

#endif
