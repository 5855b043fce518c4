/* ptl_seal.h - integrity=on: every header and payload of a connection carries
 * a MAC under its direction's session key and its place in the stream, so what
 * was changed, left out, repeated or moved is noticed (FRAMES.md 3.2).
 *
 * A header is believed before it has an effect; bytes of a payload may land
 * where that header says, and the operation ends well only after their MAC.
 */
#ifndef PTL_SEAL_H
#define PTL_SEAL_H

#include <stdbool.h>

#include "portals4_ext.h"
#include "ptl_blake2b.h"

#define PTL_SEAL_BYTES 16

struct ptl_seal {
    uint8_t in_key[PTLX_KEY_BYTES], out_key[PTLX_KEY_BYTES];
    uint64_t in, out; /* MACs so far */
    struct ptl_blake2b arriving; /* the payload on its way in */
    uint8_t tag[PTL_SEAL_BYTES]; /* of it, half read */
    unsigned have;
    bool is_due; /* payload complete, its tag comes next */
};

/* NULL: no memory. The keys are copied. */
struct ptl_seal *ptl_seal_alloc (const uint8_t in_key[PTLX_KEY_BYTES],
                                 const uint8_t out_key[PTLX_KEY_BYTES]);
void ptl_seal_free (struct ptl_seal *seal); /* NULL is nothing */

/* The next MAC of what is sent: begin, then ptl_blake2b_update, then end. */
void ptl_seal_begin (struct ptl_seal *seal, struct ptl_blake2b *state);
void ptl_seal_end (struct ptl_blake2b *state, uint8_t tag[PTL_SEAL_BYTES]);

/* Of bytes in one piece. */
void ptl_seal_bytes (struct ptl_seal *seal, const void *data, size_t length,
                     uint8_t tag[PTL_SEAL_BYTES]);

/* Check the next MAC of what arrives. False: it is wrong. */
bool ptl_seal_check (struct ptl_seal *seal, const void *data, size_t length,
                     const uint8_t tag[PTL_SEAL_BYTES]);

/* Likewise for a payload in parts: begin, update seal->arriving, prove. */
void ptl_seal_expect (struct ptl_seal *seal);
bool ptl_seal_prove (struct ptl_seal *seal);

#endif
