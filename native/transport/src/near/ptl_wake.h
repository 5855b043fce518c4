/* ptl_wake.h - how an endpoint notices that a ring has bytes or room.
 *
 * A thread that spins looks at the rings by ptl_wake_glance. One that is about
 * to sleep in epoll calls ptl_wake_may_sleep first: from then on the other ends
 * write to our eventfds, which are in the epoll set, until a glance finds that
 * nobody sleeps.
 */
#ifndef PTL_WAKE_H
#define PTL_WAKE_H

#include <stdbool.h>

struct ptl_end;
struct ptl_near;

/* Read what the rings have and write what they have room for. True: there was
 * something. No system call, and little else, when there is nothing. */
bool ptl_wake_glance (struct ptl_end *end);

/* Before sleeping in epoll: ask the other ends to wake us. False: there is
 * something to do, do not sleep. */
bool ptl_wake_may_sleep (struct ptl_end *end);

/* Does a thread sleep in the epoll set, or may one do so at any time? */
bool ptl_wake_is_needed (const struct ptl_end *end);

/* Somebody watches the descriptor (end->is_watched) and may sleep on it at any
 * time: make it readable when there is something to do. */
void ptl_wake_arm_all (struct ptl_end *end);

/* The same of one connection. */
void ptl_wake_arm (struct ptl_near *near);

/* The eventfd of a connection is readable. */
void ptl_wake_ready (struct ptl_near *near);

#endif
