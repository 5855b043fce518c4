/* ptl_in.h - bytes out of the socket: headers, and payloads to their places.
 *
 * One read fills the rest of the posted buffer and then the endpoint's
 * staging: small payloads are copied out of staging, of a large one only what
 * arrived with its header. The payload of an atomic operation is gathered until
 * it is complete. What a frame does is ptl_dispatch.h.
 */
#ifndef PTL_IN_H
#define PTL_IN_H

#include "ptl_conn.h"

/* Read frames within the endpoint's budget. */
void ptl_in_read (struct ptl_conn *conn);

/* Read all that has arrived on a connection that is about to end: what was
 * sent before the end is delivered before it, a goodbye included. */
void ptl_in_read_all (struct ptl_conn *conn);

#endif
