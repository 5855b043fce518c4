/* ptl_due.h - deadlines: which is the next, at a cost that does not grow.
 *
 * A pairing heap of members that live in their owners, so that nothing is
 * allocated. To put one is constant, to take one out logarithmic on average.
 */
#ifndef PTL_DUE_H
#define PTL_DUE_H

#include <stddef.h>
#include <stdint.h>

#define PTL_NEVER INT64_MAX

/* A deadline; all zeros: it is not set. */
struct ptl_due {
    int64_t at_ms;
    struct ptl_due *child, *next; /* later ones; others of the same parent */
    struct ptl_due **from;        /* what points here; NULL: not set */
};

/* Some deadlines; all zeros: none. It must not be moved. */
struct ptl_dues {
    struct ptl_due *first;
};

/* Set one to `at_ms`, unless it is set to an earlier time. */
void ptl_dues_put (struct ptl_dues *dues, struct ptl_due *due, int64_t at_ms);

/* It is not set any more; harmless if it was not. */
void ptl_dues_remove (struct ptl_dues *dues, struct ptl_due *due);

/* The earliest one, which is not set any more then; NULL: none is due. */
struct ptl_due *ptl_dues_pop (struct ptl_dues *dues, int64_t now_ms);

/* When the earliest one is due, or PTL_NEVER. */
static inline int64_t ptl_dues_next (const struct ptl_dues *dues)
{
    return dues->first ? dues->first->at_ms : PTL_NEVER;
}

#endif
