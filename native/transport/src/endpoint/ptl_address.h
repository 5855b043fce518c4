/* ptl_address.h - what an id means to the kernel.
 *
 * A nid of 2^24 and above is an IPv4 address and the pid a TCP port. Smaller
 * ones are places in the interface's address table: "/path" of a Unix socket
 * or "[ipv6]:port".
 */
#ifndef PTL_ADDRESS_H
#define PTL_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define PTL_TABLE_NIDS (1u << 24)

struct ptl_end;

/* Can this text be an entry of the table? */
bool ptl_address_ok (const char *text);

/* The abstract Unix address where a process with this id listens for others
 * of its host, and its length; 0: such an id listens nowhere. */
socklen_t ptl_address_near (uint32_t nid, uint32_t pid,
                            struct sockaddr_storage *storage);

/* The socket address of an id, and its length; 0: it has none. */
socklen_t ptl_address_find (const struct ptl_end *end, uint32_t nid,
                            uint32_t pid, struct sockaddr_storage *storage);

#endif
