/* ptl_shake.h - the handshake of one connection, step by step.
 *
 * The state exists while the connection is unproven. Nothing is allocated by
 * the peer's word; the longest message, a credential, has a kilobyte.
 */
#ifndef PTL_SHAKE_H
#define PTL_SHAKE_H

#include "ptl_auth.h"
#include "ptl_unproven.h"

struct ptl_conn;
struct ptl_end;

enum ptl_shake_step {
    PTL_AWAIT_M1, /* or m5 */
    PTL_AWAIT_M2,
    PTL_AWAIT_M3,
    PTL_AWAIT_M4,
    PTL_AWAIT_ANSWER, /* of whoever judges the credential of m5 */
    PTL_AWAIT_M6
};

struct ptl_shake {
    struct ptl_place place; /* of an inbound connection */
    enum ptl_shake_step step;
    struct ptlx_key key; /* of kind MUNGE: that of the credential */
    struct ptl_hello theirs;
    uint32_t intended_nid, intended_pid;
    uint8_t m1[PTL_M1_BYTES], m2[PTL_M2_BYTES], m3[PTL_M3_BYTES];
    uint8_t in[PTL_SHAKE_MAX_BYTES];
    size_t have;
    uint64_t ticket; /* of the credential */
};

/* Begin as listener (wait for m1); room has been made. False: no memory. */
bool ptl_shake_listen (struct ptl_conn *conn, uint64_t origin);

/* Begin as dialler with this key; m1 goes out when connected. */
bool ptl_shake_dial (struct ptl_conn *conn, const struct ptlx_key *key,
                     uint32_t nid, uint32_t pid);

/* The socket of a dial is connected: send m1. */
void ptl_shake_connected (struct ptl_conn *conn);

/* Bytes are waiting. */
void ptl_shake_read (struct ptl_conn *conn);

/* Say no and hang up. */
void ptl_shake_refuse (struct ptl_conn *conn, enum ptl_code code);

/* Send a refusal on a socket that is about to be closed. */
void ptl_shake_say_no (const struct ptl_end *end, int fd, enum ptl_code code);

void ptl_shake_free (struct ptl_conn *conn);

#endif
