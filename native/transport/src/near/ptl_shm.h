/* ptl_shm.h - two rings in a piece of memory that two processes share.
 *
 * One end makes the memory and two eventfds, and gives them to the other over
 * a connected Unix socket. Who gets them trusts nothing: number and kind of
 * the descriptors, the seals against another size, and the size itself are
 * checked before it is mapped. What is in it is ptl_ring.h's.
 *
 *   two struct ptl_ring_shared, padded to a page | bytes of ring 0 | of ring 1
 *
 * Ring 0 goes from the maker to the other end. Each end sleeps on its own
 * eventfd and writes to the other's, for bytes and for room alike.
 */
#ifndef PTL_SHM_H
#define PTL_SHM_H

#include <sys/socket.h>

#include "ptl_ring.h"

#define PTL_SHM_RING_BYTES (512u * 1024) /* each way; fits a whole fragment */
#define PTL_SHM_RING_MIN (4u * 1024)
#define PTL_SHM_RING_MAX (16u * 1024 * 1024)
#define PTL_SHM_FDS 3 /* memory, the taker's eventfd, the maker's */

struct ptl_shm {
    struct ptl_ring out, in;
    void *memory;
    size_t length;
    int fds[PTL_SHM_FDS]; /* fds[0] only until it has been given */
    bool is_maker;
};

/* Descriptors that came over a socket and that nobody has looked at. */
struct ptl_shm_fds {
    int fds[PTL_SHM_FDS];
    int n;
    bool is_bad; /* too many came, or other data */
};

/* Memory for rings of so many bytes (a power of two) and the eventfds.
 *   0, EINVAL, or the errno of what the system refused
 */
int ptl_shm_make (struct ptl_shm *shm, size_t ring_bytes);

/* sendmsg of `length` bytes with the descriptors. */
ssize_t ptl_shm_give (const struct ptl_shm *shm, int socket, const void *data,
                      size_t length);

/* The descriptor of the memory is not needed once it has been given. */
void ptl_shm_given (struct ptl_shm *shm);

/* recvmsg into the parts; descriptors that come with it are added to `fds`. */
ssize_t ptl_shm_receive (int socket, struct iovec *parts, int count,
                         struct ptl_shm_fds *fds);

/* Map memory that was given. The descriptors are taken over; on failure they
 * are closed.
 *   0, EINVAL (they are not what ptl_shm_make makes), or another errno
 */
int ptl_shm_take (struct ptl_shm *shm, struct ptl_shm_fds *fds,
                  size_t ring_bytes);

/* Close descriptors that are not wanted. */
void ptl_shm_drop (struct ptl_shm_fds *fds);

/* Is the other end of a Unix socket a process of this user? */
bool ptl_shm_is_same_user (int socket, uid_t user);

/* The descriptor that wakes us, for an epoll set. */
int ptl_shm_own_fd (const struct ptl_shm *shm);

/* Wake the other end. */
void ptl_shm_wake (const struct ptl_shm *shm);

/* Make our own eventfd readable: there is something to do already. */
void ptl_shm_wake_self (const struct ptl_shm *shm);

/* Clear the wake-up. Does not block, whatever the other end has done to the
 * descriptor. */
void ptl_shm_calm (const struct ptl_shm *shm);

/* Unmap and close; what was written can still be read at the other end. */
void ptl_shm_free (struct ptl_shm *shm);

#endif
