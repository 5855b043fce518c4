/* ptl_dispatch.h - what an arrived frame does.
 *
 * A header begins something (ptl_dispatch_header); its payload, put where it
 * belongs by ptl_in.c, ends it. Whatever a peer sends that FRAMES.md does not
 * allow cuts that peer off, and no one else.
 */
#ifndef PTL_DISPATCH_H
#define PTL_DISPATCH_H

#include "ptl_conn.h"

/* The header in conn->header is complete. */
void ptl_dispatch_header (struct ptl_conn *conn);

/* The payload of the put or reply that is arriving is complete. */
void ptl_dispatch_payload (struct ptl_conn *conn);

/* The payload of an atomic operation is complete, in one piece. */
void ptl_dispatch_atomic (struct ptl_conn *conn, const uint8_t *payload);

#endif
