/* ptl_unexpected.h - headers of messages that came before their entry.
 *
 * An operation that lands in an overflow entry leaves a header in the portal
 * table entry. Who is appended to the priority list, or searches, looks at the
 * headers first, in the order in which the operations began, and takes those
 * that match: each becomes an event of the one who takes it (PUT_OVERFLOW and
 * so on), which tells where in the overflow entry's memory the bytes are. What
 * is taken while its bytes still land is told of when they have landed.
 */
#ifndef PTL_UNEXPECTED_H
#define PTL_UNEXPECTED_H

#include <stdbool.h>

#include "portals4_ext.h"
#include "ptl_list.h"

struct ptl_me;
struct ptl_ni;

struct ptl_header {
    struct ptl_node node; /* in the table entry's list, until it is taken */
    struct ptl_me *me;    /* whose memory has the bytes */
    struct ptl_me *taker; /* or NULL */
    unsigned needs;       /* PTL_ME_OP_PUT, PTL_ME_OP_GET */
    bool is_landed;
    struct ptlx_event event;
};

/* Memory for a header. NULL: the limit has been reached, or no memory. */
struct ptl_header *ptl_unexpected_reserve (struct ptl_ni *ni);

/* Leave the header of an operation that begins on this entry. */
void ptl_unexpected_leave (struct ptl_header *header, struct ptl_me *me,
                           const struct ptlx_event *event, unsigned needs);

/* Its operation has ended and brought so many bytes. */
void ptl_unexpected_landed (struct ptl_header *header, int fail,
                            uint64_t mlength);

/* Give `me` the headers that it matches. True: that has used it up (USE_ONCE,
 * min_free), do not link it. */
bool ptl_unexpected_take (struct ptl_me *me);

/* Is there a header that it would take? */
bool ptl_unexpected_has (struct ptl_me *me);

/* Post a SEARCH event for the header that `me` matches (for each, without
 * USE_ONCE). */
void ptl_unexpected_look (struct ptl_me *me);

/* A search has ended. Post an event if it found nothing; if it could have found
 * more, note the end in its counter. */
void ptl_unexpected_searched (struct ptl_me *me);

/* Forget all headers of an interface that ends. */
void ptl_unexpected_free_all (struct ptl_ni *ni);

#endif
