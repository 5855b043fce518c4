/* ptl_api.h - what the public calls share.
 *
 * ptl_api_ni and its like begin a call: the lock is held when they return
 * PTL_OK; else the call is over. ptl_leave ends it.
 */
#ifndef PTL_API_H
#define PTL_API_H

#include "portals4_ext.h"
#include "ptl_end.h"
#include "ptl_handle.h"
#include "ptl_ni.h"
#include "ptl_process.h"

struct ptl_ct;
struct ptl_eq;
struct ptl_md;
struct ptl_me;

int ptl_api_ni (uint32_t handle, struct ptl_ni **nip);
int ptl_api_eq (uint32_t handle, struct ptl_eq **eqp);
int ptl_api_ct (uint32_t handle, struct ptl_ct **ctp);
int ptl_api_md (uint32_t handle, struct ptl_md **mdp);
int ptl_api_me (uint32_t handle, struct ptl_me **mep);

/* Within a call: a queue or counter of this interface; NULL for the none
 * handle. PTL_OK, PTL_ARG_INVALID. */
int ptl_api_find_eq (const struct ptl_ni *ni, uint32_t handle,
                     struct ptl_eq **eqp);
int ptl_api_find_ct (const struct ptl_ni *ni, uint32_t handle,
                     struct ptl_ct **ctp);

/* An event as the specification has it. */
void ptl_api_event (const struct ptl_ni *ni, const struct ptlx_event *from,
                    ptl_event_t *to);

#endif
