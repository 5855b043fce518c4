/* ptl_origin.h - where an inbound connection comes from, before it has proven
 * anything.
 *
 * The origin of a connection from this host is the user, whom the kernel names:
 * by the peer credentials of a Unix socket, for TCP by the owner of the other
 * socket. The origin of any other connection is its IPv4 address. All of
 * 127.0.0.0/8 counts as one address: a process may use any of it.
 */
#ifndef PTL_ORIGIN_H
#define PTL_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#define PTL_ORIGIN_USER (UINT64_C (1) << 32) /* a uid, not an address */

/* The origin of an accepted socket. 0: unknown, its other end is closed. */
uint64_t ptl_origin_of (int fd, bool is_unix);

#endif
