/* ptl_self.h - operations to oneself: matched and done by the work queue,
 * without frames. */
#ifndef PTL_SELF_H
#define PTL_SELF_H

struct ptl_op;

/* Carry it out and end it. One that a disabled entry refuses, and that is to be
 * tried again, is held. */
void ptl_self_deliver (struct ptl_op *op);

#endif
