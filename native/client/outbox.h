/* outbox.h - what the client tells the server: small packets on the socket.
 *
 * Packets wait here while the server does not read. Room is bounded: who is
 * about to cause an answer (a command, the end of a child) asks first. A credit
 * of a stream is added to one that waits, and a signal waits once.
 */
#ifndef YOD_CLIENT_OUTBOX_H
#define YOD_CLIENT_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire.h"

#define OUTBOX_PACKETS 64
#define OUTBOX_FDS_MAX 2                /* of one packet */
#define OUTBOX_RESERVED 32              /* 16 orphan answers, 16 of other kinds */

struct outbox_packet {
    struct wire_head head;
    uint32_t more;                      /* the payload */
    uint32_t size;                      /* of the packet: 8 or 12 bytes */
};

struct outbox {
    int socket;
    bool is_broken;                     /* the server is gone; all is dropped */
    size_t first, count;
    struct outbox_packet packets[OUTBOX_PACKETS];
};

/* Whether a command may be read or a child be reaped: each is answered by a
 * packet. */
bool outbox_has_room (const struct outbox *box);

/* Queue a packet without a payload. A signal that waits already is not queued
 * again. */
void outbox_add (struct outbox *box, enum client_kind kind, uint32_t value);

/* Queue a packet with a number as its payload. GIVEN of a pipe takes a
 * descriptor along: the standard stream of that number, which stays open. */
void outbox_add_number (struct outbox *box, enum client_kind kind,
                        uint32_t value, uint32_t more);

/* A stream is to be closed: if its GIVEN waits, it says that nothing is given. */
void outbox_withdraw (struct outbox *box, uint32_t stream);

/* Queue a credit for bytes of a stream; it is added to one that waits. */
void outbox_add_written (struct outbox *box, uint32_t stream, size_t bytes);

/* Send what is queued, until the socket is full.
 *   true   nothing is left in the queue
 */
bool outbox_flush (struct outbox *box);

/* Send a packet with descriptors now, without the queue; they stay open.
 *   n_fds   1 to OUTBOX_FDS_MAX
 *   as of sendmsg(2)
 */
ssize_t outbox_send (int socket, const void *packet, size_t size,
                     const int fds[], size_t n_fds);

#endif
