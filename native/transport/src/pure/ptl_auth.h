/* ptl_auth.h - keys, proofs and the four handshake messages, as bytes.
 *
 * Pure: who sends what when is ptl_shake.h. FRAMES.md has the layout.
 *
 *   m1 dialler   hello
 *   m2 listener  hello, proof MAC (K, m1 | hello)
 *   m3 dialler   proof MAC (K, m1 | m2)
 *   (m5, m6: ptl_credential.h)
 *   m4 listener  code, proof MAC (session key, code); a refusal before the
 *                key is known carries a proof of zeros and is never trusted
 */
#ifndef PTL_AUTH_H
#define PTL_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "portals4_ext.h"

#define PTL_TAG_BYTES 32
#define PTL_NONCE_BYTES 32
#define PTL_HELLO_BYTES 96
#define PTL_M1_BYTES PTL_HELLO_BYTES
#define PTL_M2_BYTES (PTL_HELLO_BYTES + PTL_TAG_BYTES)
#define PTL_M3_BYTES (8 + PTL_TAG_BYTES)
#define PTL_M4_BYTES (8 + PTL_TAG_BYTES)
#define PTL_START_BYTES 8 /* of each message; m6 has no more */
#define PTL_SHAKE_MAX_BYTES (PTL_START_BYTES + PTLX_CREDENTIAL_MAX_BYTES)

#define PTL_OFFER_INTEGRITY 1u
#define PTL_OFFER_MEMORY 2u
#define PTL_OFFER_LITTLE_ENDIAN 0x100u

enum ptl_code {
    PTL_CODE_READY = 0,
    PTL_CODE_COLLISION = 1, /* the other connection of the pair survives */
    PTL_CODE_WRONG_VERSION = 2,
    PTL_CODE_WRONG_KEY = 3,
    PTL_CODE_WRONG_PEER = 4,
    PTL_CODE_FULL = 5, /* too many unproven connections */
    PTL_CODE_EXPIRED = 6,
    PTL_CODE_NOT_PERMITTED = 7, /* no key, over TCP */
    PTL_CODE_MALFORMED = 8,
    PTL_CODE_INTEGRITY = 9, /* it is required here, and was not offered */
    PTL_CODE_SHARE = 10, /* too many unproven connections of one origin */
    PTL_CODE_NO_CREDENTIALS = 11, /* none is taken here */
    PTL_CODE_CREDENTIAL = 12,     /* it is not valid */
    PTL_CODE_CREDENTIAL_OLD = 13, /* or has expired, */
    PTL_CODE_CREDENTIAL_USED = 14, /* or was used before */
    PTL_CODE_NO_JUDGE = 15, /* nobody there can tell: munged does not answer */
    PTL_CODE_CONNECTIONS = 16 /* too many connections of this user */
};

/* What m1 and m2 say. */
struct ptl_hello {
    uint8_t version_min, version_max, version; /* version: m2 only */
    uint8_t key_kind;
    uint32_t uid;
    uint64_t job_id, expires;
    uint32_t nid, pid; /* own */
    uint64_t incarnation;
    uint32_t intended_nid, intended_pid;
    uint32_t offers;
    uint32_t hint; /* ptl_auth_hint, m1 only; 0: none */
    uint8_t nonce[PTL_NONCE_BYTES];
};

/* MAC (key, person, data): keyed BLAKE2b-256. */
void ptl_auth_mac (const uint8_t key[PTLX_KEY_BYTES], const char *person,
                   const void *data, size_t length, uint8_t out[32]);

/* The user's or job's secret that follows from the partition's. */
void ptl_auth_derive (const uint8_t partition_key[PTLX_KEY_BYTES],
                      struct ptlx_key *key);

/* Does this key prove nothing by itself? */
bool ptl_auth_is_keyless (const struct ptlx_key *key);

/* Tells which of several keys a nonce was sent with, and nothing else. */
uint32_t ptl_auth_hint (const uint8_t *key,
                        const uint8_t nonce[PTL_NONCE_BYTES]);

/* Compare in constant time. */
bool ptl_auth_equal (const uint8_t *a, const uint8_t *b, size_t length);

void ptl_auth_put_hello (uint8_t message, const struct ptl_hello *hello,
                         uint8_t out[PTL_HELLO_BYTES]);

/* PTL_FAIL: not a hello of this kind of message, or a field out of range. */
int ptl_auth_get_hello (uint8_t message, const uint8_t in[PTL_HELLO_BYTES],
                        struct ptl_hello *hello);

/* The proofs. m2 and m3 are complete messages, except for what is computed. */
void ptl_auth_listener_tag (const uint8_t *key, const uint8_t *m1,
                            const uint8_t *m2, uint8_t tag[PTL_TAG_BYTES]);
void ptl_auth_put_m3 (const uint8_t *key, const uint8_t *m1,
                      const uint8_t *m2, uint8_t m3[PTL_M3_BYTES]);

/* The session key towards the dialler, from the whole exchange. */
void ptl_auth_session (const uint8_t *key, const char *person,
                       const uint8_t *m1, const uint8_t *m2,
                       const uint8_t *m3, uint8_t out[PTLX_KEY_BYTES]);

/* m4. `session` NULL: a refusal without proof. */
void ptl_auth_put_m4 (const uint8_t *session, uint8_t code,
                      uint8_t version_min, uint8_t version_max,
                      uint8_t m4[PTL_M4_BYTES]);

/* m5: a credential of at most PTLX_CREDENTIAL_MAX_BYTES; m6: it was taken. */
void ptl_auth_put_m5 (const uint8_t *credential, size_t length, uint8_t *m5);
void ptl_auth_put_m6 (uint8_t m6[PTL_START_BYTES]);

/* Length of a message by its first 8 bytes; 0 when they begin none. */
size_t ptl_auth_length (const uint8_t start[8]);

#endif
