/* ptl_wait.h - waiting for an event, and progress while nobody waits.
 *
 * One thread at a time drives an endpoint: it sleeps in the endpoint's epoll
 * set, without the lock, and does what is due when it wakes. Other waiters
 * sleep on a condition and look again after each round.
 *
 * Portals promises progress without calls, so the first interface of a program
 * starts a thread (unless PTL_PROGRESS=none). It does not disturb calls: it
 * looks at the sockets when no call has done so for a millisecond, and sleeps
 * in the epoll set, where a message wakes it, only when there have been no
 * calls. Daemons have no thread: the extension is built without it.
 */
#ifndef PTL_WAIT_H
#define PTL_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#define PTL_WAIT_MORE (-1) /* not a result of Portals */

struct ptl_end;

/* Is it there? A result, or PTL_WAIT_MORE. */
typedef int ptl_look (void *context);

/* Wait until `look` gives a result, at most until `until_ns` (PTL_NEVER); the
 * lock is held, and given up while the thread sleeps.
 *   its result, PTL_WAIT_MORE (time is up), PTL_ABORTED, PTL_INTERRUPTED (the
 *   interface ends) */
int ptl_wait (struct ptl_end *end, ptl_look *look, void *context,
              int64_t until_ns);

/* Make those who wait look again: an abort, an end, a freed object. */
void ptl_wait_wake (struct ptl_end *end);

/* Make all waiters leave; the lock is given up until they have. */
void ptl_wait_end (struct ptl_end *end);

/* Start and stop the thread of the shared endpoint. Without one (PTL_PROGRESS,
 * or the system refuses) calls make progress. Stopping gives the lock up, and
 * ends the waits: the endpoint is about to end. */
void ptl_progress_start (struct ptl_end *end);
void ptl_progress_stop (void);

/* Tell the thread that no call drives the endpoint any more. */
void ptl_progress_wake (const struct ptl_end *end);

#endif
