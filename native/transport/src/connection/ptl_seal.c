#include "ptl_seal.h"

#include <stdlib.h>
#include <string.h>

#include "ptl_auth.h"
#include "ptl_bytes.h"

static void begin (struct ptl_blake2b *state, const uint8_t *key,
                   uint64_t number)
{
    uint8_t place[8];

    ptl_put64 (place, number);
    ptl_blake2b_init (state, key, "yod.frame");
    ptl_blake2b_update (state, place, sizeof (place));
}

struct ptl_seal *ptl_seal_alloc (const uint8_t in_key[PTLX_KEY_BYTES],
                                 const uint8_t out_key[PTLX_KEY_BYTES])
{
    struct ptl_seal *seal = calloc (1, sizeof (*seal));

    if (!seal)
        return NULL;
    memcpy (seal->in_key, in_key, PTLX_KEY_BYTES);
    memcpy (seal->out_key, out_key, PTLX_KEY_BYTES);
    return seal;
}

void ptl_seal_free (struct ptl_seal *seal)
{
    if (!seal)
        return;
    explicit_bzero (seal, sizeof (*seal));
    free (seal);
}

void ptl_seal_begin (struct ptl_seal *seal, struct ptl_blake2b *state)
{
    begin (state, seal->out_key, seal->out++);
}

void ptl_seal_end (struct ptl_blake2b *state, uint8_t tag[PTL_SEAL_BYTES])
{
    uint8_t whole[PTL_BLAKE2B_BYTES];

    ptl_blake2b_final (state, whole);
    memcpy (tag, whole, PTL_SEAL_BYTES);
}

void ptl_seal_bytes (struct ptl_seal *seal, const void *data, size_t length,
                     uint8_t tag[PTL_SEAL_BYTES])
{
    struct ptl_blake2b state;

    ptl_seal_begin (seal, &state);
    ptl_blake2b_update (&state, data, length);
    ptl_seal_end (&state, tag);
}

bool ptl_seal_check (struct ptl_seal *seal, const void *data, size_t length,
                     const uint8_t tag[PTL_SEAL_BYTES])
{
    uint8_t right[PTL_SEAL_BYTES];
    struct ptl_blake2b state;

    begin (&state, seal->in_key, seal->in++);
    ptl_blake2b_update (&state, data, length);
    ptl_seal_end (&state, right);
    return ptl_auth_equal (right, tag, PTL_SEAL_BYTES);
}

void ptl_seal_expect (struct ptl_seal *seal)
{
    begin (&seal->arriving, seal->in_key, seal->in++);
    seal->have = 0;
    seal->is_due = false;
}

bool ptl_seal_prove (struct ptl_seal *seal)
{
    uint8_t right[PTL_SEAL_BYTES];

    ptl_seal_end (&seal->arriving, right);
    seal->is_due = false;
    return ptl_auth_equal (right, seal->tag, PTL_SEAL_BYTES);
}
