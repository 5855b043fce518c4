/* ptl_ends.h - the endpoints of the process.
 *
 * Made here, an endpoint calls the interfaces, the objects and the process by
 * the table of ptl_above.h.
 */
#ifndef PTL_ENDS_H
#define PTL_ENDS_H

#include "portals4_ext.h"

struct ptl_end;

/* Make an endpoint that PtlFini ends if nobody does before, and whose waits
 * PtlAbort ends. Results as PtlxNIInit. */
int ptl_ends_make (const struct ptlx_config *config, struct ptl_end **endp);

/* End all that are left. */
void ptl_ends_free_all (void);

#endif
