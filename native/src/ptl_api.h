/* ptl_api.h - what the public calls share. */
#ifndef PTL_API_H
#define PTL_API_H

#include "portals4_ext.h"
#include "ptl_handle.h"
#include "ptl_ni.h"

struct ptl_ct;

/* Leave a call that may have begun something: owed output is written and the
 * descriptor told before the caller goes on. Gives `rc`. */
int ptl_api_done (struct ptl_ni *ni, int rc);

/* Find an interface and look at the clock: a call may set a deadline. */
int ptl_api_ni (uint32_t handle, struct ptl_ni **nip);

/* A queue or counter of this interface; NULL for the none handle. */
int ptl_api_eq (const struct ptl_ni *ni, uint32_t handle,
                struct ptl_eq **eqp);
int ptl_api_ct (const struct ptl_ni *ni, uint32_t handle,
                struct ptl_ct **ctp);

/* End an interface. */
void ptl_api_end (struct ptl_ni *ni, uint32_t flush_ms);

#endif
