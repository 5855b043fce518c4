/* ptl_blake2b.h - BLAKE2b with a 32-byte result (RFC 7693).
 *
 * Plain for digests of objects, keyed and personalised for proofs. Equal to
 * hashlib.blake2b (data, digest_size=32, key=..., person=...).
 */
#ifndef PTL_BLAKE2B_H
#define PTL_BLAKE2B_H

#include <stddef.h>
#include <stdint.h>

#define PTL_BLAKE2B_BYTES 32

struct ptl_blake2b {
    uint64_t h[8];
    uint64_t count; /* bytes compressed; an object is far below 2^64 */
    size_t have;    /* bytes in block */
    uint8_t block[128];
};

/* Begin. `key` is 32 bytes or NULL; `person` at most 16 characters or NULL. */
void ptl_blake2b_init (struct ptl_blake2b *state, const uint8_t *key,
                       const char *person);
void ptl_blake2b_update (struct ptl_blake2b *state, const void *data,
                         size_t length);

/* Give the result and wipe the state. */
void ptl_blake2b_final (struct ptl_blake2b *state,
                        uint8_t out[PTL_BLAKE2B_BYTES]);

#endif
