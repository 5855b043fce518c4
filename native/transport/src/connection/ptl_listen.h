/* ptl_listen.h - the listeners of an endpoint: a TCP port, a Unix path, and the
 * name at which processes of this host meet (ptl_near.h).
 *
 * ptl_unproven.h limits the connections that are in a handshake. When there are
 * no descriptors left the listeners are not watched for a while: epoll would
 * report them again and again.
 */
#ifndef PTL_LISTEN_H
#define PTL_LISTEN_H

#include "ptl_end.h"

/* Listen as configured; the TCP port becomes the interface's id.
 *   PTL_OK, PTL_PID_IN_USE, PTL_ARG_INVALID (path too long), PTL_FAIL
 */
int ptl_listen_tcp (struct ptl_end *end);
int ptl_listen_unix (struct ptl_end *end);

/* Listen for processes of this host, at the address that end->self has there.
 * If that fails they connect by TCP. */
void ptl_listen_near (struct ptl_end *end);

/* Take what is waiting at a listener. */
void ptl_listen_accept (struct ptl_end *end, struct ptl_source *listener);

/* End a rest that is over. */
void ptl_listen_again (struct ptl_end *end);

/* Close the listeners, and remove the path. */
void ptl_listen_stop (struct ptl_end *end);

#endif
