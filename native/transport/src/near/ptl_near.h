/* ptl_near.h - a connection between processes of a host and user, which may
 * share memory.
 *
 * An endpoint with config.is_local listens at an abstract Unix address made
 * of its id as well, and dials there first. Connecting proves that the other
 * process is on this host; the handshake proves who it is, as over TCP. If
 * both have the same user and both offer it (daemons do not: config.no_memory),
 * the listener gives memory with two rings (ptl_shm.h) after a little traffic,
 * so that idle peers cost none. From then on frames go through the rings; the
 * socket stays open to tell that the other end has gone. FRAMES.md has the
 * frames that switch over.
 * ptl_wake.h says how an endpoint notices what is in the rings.
 */
#ifndef PTL_NEAR_H
#define PTL_NEAR_H

#include "ptl_end.h"
#include "ptl_shm.h"
#include "ptl_wire.h"

#define PTL_NEAR_STAGING_BYTES 1024 /* payloads land where they belong */

struct ptl_conn;

struct ptl_near {
    struct ptl_source source; /* first: what epoll gives back */
    struct ptl_node node;     /* in end->nears */
    struct ptl_conn *conn;
    struct ptl_shm shm;
    struct ptl_shm_fds fds; /* arrived, not yet taken */
    uint8_t owed;           /* enum ptl_memory_step to be sent, or 0 */
    uint8_t said;           /* the last one that was sent whole */
    bool is_in, is_out;     /* that direction goes through its ring */
    unsigned done;          /* bytes of the owed frame that are out */
};

/* Connect to a process of this host. 0: *fd is connected; EAGAIN: try again
 * soon; another errno: it cannot be reached this way. */
int ptl_near_dial (const struct ptl_end *end, uint32_t nid, uint32_t pid,
                   int *fd);

/* Does this end meet processes of its user and host without a key? Not if it has
 * a key or needs one: it is reached with that alone. */
bool ptl_near_takes_keyless (const struct ptl_end *end);

/* Is the other end a process of our user, on this host? */
bool ptl_near_is_own_user (const struct ptl_conn *conn);

/* Do we offer memory on this connection? */
bool ptl_near_offers (const struct ptl_conn *conn);

/* recvmsg and sendmsg of a connection that may share memory. Of a broken
 * ring: -1 and EPROTO. */
ssize_t ptl_near_receive (struct ptl_conn *conn, struct iovec *parts,
                          int count);
ssize_t ptl_near_send (struct ptl_conn *conn, struct iovec *parts, int count);

/* A MEMORY frame has arrived. False: it is not allowed here. */
bool ptl_near_take (struct ptl_conn *conn, const struct ptl_frame *frame);

/* Is a MEMORY frame to be sent, before any other? */
bool ptl_near_owes (const struct ptl_conn *conn);

/* Send it, or the rest of it: as sendmsg; *wanted is what there was. */
ssize_t ptl_near_pay (struct ptl_conn *conn, size_t *wanted);

/* Does what we send go through a ring? */
bool ptl_near_is_out (const struct ptl_conn *conn);

/* How many descriptors it has for shared memory. */
unsigned ptl_near_descriptors (const struct ptl_conn *conn);

/* Is no change between socket and memory under way? */
bool ptl_near_is_settled (const struct ptl_conn *conn);

/* Does what we read come from a ring? */
bool ptl_near_is_in (const struct ptl_conn *conn);

/* Not all could be written: ask to be woken when the ring has room. */
void ptl_near_await_room (struct ptl_conn *conn);

/* Has the other end hung up its socket? Bytes there count as a hang-up. */
bool ptl_near_hung_up (const struct ptl_conn *conn);

/* Close what is open; the record stays until ptl_near_free. */
void ptl_near_close (struct ptl_conn *conn);
void ptl_near_free (struct ptl_conn *conn);

#endif
