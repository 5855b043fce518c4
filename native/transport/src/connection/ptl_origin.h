/* ptl_origin.h - where an inbound connection comes from, before it has proven
 * anything.
 *
 * A connection of this host is its user's, by the kernel's word: of a Unix
 * socket the peer credentials, of TCP the owner of the other socket. Any other
 * is its IPv4 address's. All addresses of 127.0.0.0/8 are one: each process may
 * take any of them.
 */
#ifndef PTL_ORIGIN_H
#define PTL_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#define PTL_ORIGIN_USER (UINT64_C (1) << 32) /* a uid, not an address */

/* The origin of an accepted socket. 0: nobody knows, its other end is closed. */
uint64_t ptl_origin_of (int fd, bool is_unix);

#endif
