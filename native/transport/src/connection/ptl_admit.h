/* ptl_admit.h - by which name a proven inbound connection is known, and which
 * of two connections survives.
 *
 * A name in a handshake is a claim. A listening id is believed of those who
 * share our own key; everybody else gets a pid that nobody can dial. So what is
 * meant for a daemon cannot be drawn to somebody who merely says its name.
 */
#ifndef PTL_ADMIT_H
#define PTL_ADMIT_H

#include <stdint.h>

#include "ptl_auth.h"

struct ptl_conn;

/* Give the connection its peer: PTL_CODE_READY, or the code of a refusal. */
enum ptl_code ptl_admit (struct ptl_conn *conn, uint32_t nid, uint32_t pid);

#endif
