/* ptl_credential.h - a credential that proves a user, before the handshake.
 *
 * A user of another host has no key that follows from the partition's, but a
 * credential of MUNGE: it proves their uid and brings a secret that nobody but
 * the listener can read. The dialler sends it as m5. The listener posts
 * PTLX_EVENT_CREDENTIAL and waits, within the time of a handshake and in the
 * place of an unproven connection; whoever drives it has the credential judged
 * and answers. Then the listener says m6, and the handshake goes on with that
 * secret as its key.
 */
#ifndef PTL_CREDENTIAL_H
#define PTL_CREDENTIAL_H

#include "ptl_conn.h"

/* The dialler sends m5 instead of m1. False: it could not be sent whole. */
bool ptl_credential_send (struct ptl_conn *conn);

/* m5 has come to the listener: post the event, or refuse. */
void ptl_credential_take (struct ptl_conn *conn);

/* The connection that waits for this ticket's answer; NULL: it is gone. */
struct ptl_conn *ptl_credential_find (const struct ptl_end *end,
                                      uint64_t ticket);

/* It is the credential of this user: go on with this secret. */
void ptl_credential_accept (struct ptl_conn *conn, uint32_t uid,
                            const uint8_t secret[PTLX_KEY_BYTES]);

#endif
