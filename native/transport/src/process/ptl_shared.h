/* ptl_shared.h - the endpoint that the interfaces of PtlNIInit share.
 *
 * A process has one id, so the four kinds of interface sit on one endpoint,
 * made with the first and ended with the last of them. Where yod started the
 * process (ptl_job.h), the job's key, the listener and the map are its job's;
 * else the environment says:
 *
 *   PTL_LISTEN     IPv4 address to listen at (127.0.0.1)
 *   PTL_KEY_FILE   32 bytes that all who may talk share; without it, only
 *                  processes of this user on this host are reached
 *
 * In both cases ptl_env.h has the other variables.
 */
#ifndef PTL_SHARED_H
#define PTL_SHARED_H

#include <stdbool.h>

#include "portals4.h"

struct ptl_end;
struct ptl_ni;

/* Open an interface: one more user of it; makes it and the endpoint if needed.
 *
 * PTL_OK, PTL_PID_IN_USE (the process has another pid), PTL_NO_SPACE, PTL_FAIL
 * (errno says why; if it is the environment, standard error does)
 */
int ptl_shared_open (int kind, ptl_pid_t pid, const ptl_ni_limits_t *desired,
                     struct ptl_ni **nip);

/* One user less. Returns the endpoint, NULL when it has ended. */
struct ptl_end *ptl_shared_close (struct ptl_ni *ni);

/* A rank uses its logical interface without a map: tell its user once, if the
 * reason is that yod did not see that it needs one. */
void ptl_shared_lacks_map (void);

/* Is it the shared one? */
bool ptl_shared_is (const struct ptl_end *end);

/* Is another thread ending the shared endpoint (with the lock given up
 * meanwhile)? A new one can be made when it has gone. */
bool ptl_shared_is_ending (void);

/* Stop its thread, make all waiters leave, and forget it; the caller ends it
 * with the others. */
void ptl_shared_stop (void);

#endif
