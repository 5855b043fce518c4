#include "ptl_auth.h"

#include <float.h>
#include <string.h>

#include "ptl_blake2b.h"
#include "ptl_bytes.h"

static const uint8_t magic[4] = { 'Y', 'O', 'D', 'T' };

void ptl_auth_mac (const uint8_t key[PTLX_KEY_BYTES], const char *person,
                   const void *data, size_t length, uint8_t out[32])
{
    struct ptl_blake2b state;

    ptl_blake2b_init (&state, key, person);
    ptl_blake2b_update (&state, data, length);
    ptl_blake2b_final (&state, out);
}

void ptl_auth_derive (const uint8_t partition_key[PTLX_KEY_BYTES],
                      struct ptlx_key *key)
{
    uint8_t id[20];

    if (key->kind == PTLX_KEY_USER) {
        ptl_put32 (id, key->uid);
        ptl_auth_mac (partition_key, "yod.user", id, 4, key->secret);
    }
    else {
        ptl_put64 (id, key->job_id);
        ptl_put32 (id + 8, key->uid);
        ptl_put64 (id + 12, key->expires);
        ptl_auth_mac (partition_key, "yod.job", id, 20, key->secret);
    }
}

bool ptl_auth_is_keyless (const struct ptlx_key *key)
{
    return key->kind == PTLX_KEY_NONE || key->kind == PTLX_KEY_LOCAL;
}

uint32_t ptl_auth_hint (const uint8_t *key,
                        const uint8_t nonce[PTL_NONCE_BYTES])
{
    uint8_t mac[32];

    ptl_auth_mac (key, "yod.hint", nonce, PTL_NONCE_BYTES, mac);
    return ptl_get32 (mac);
}

bool ptl_auth_equal (const uint8_t *a, const uint8_t *b, size_t length)
{
    volatile uint8_t difference = 0;

    for (size_t i = 0; i < length; i++)
        difference = (uint8_t)(difference | (a[i] ^ b[i]));
    return difference == 0;
}

void ptl_auth_put_hello (uint8_t message, const struct ptl_hello *hello,
                         uint8_t out[PTL_HELLO_BYTES])
{
    memset (out, 0, PTL_HELLO_BYTES);
    memcpy (out, magic, sizeof (magic));
    out[4] = message;
    out[5] = hello->version_min;
    out[6] = hello->version_max;
    out[7] = hello->version;
    out[8] = hello->key_kind;
    ptl_put32 (out + 12, hello->uid);
    ptl_put64 (out + 16, hello->job_id);
    ptl_put64 (out + 24, hello->expires);
    ptl_put32 (out + 32, hello->nid);
    ptl_put32 (out + 36, hello->pid);
    ptl_put64 (out + 40, hello->incarnation);
    ptl_put32 (out + 48, hello->intended_nid);
    ptl_put32 (out + 52, hello->intended_pid);
    ptl_put32 (out + 56, hello->offers);
    ptl_put32 (out + 60, hello->hint);
    memcpy (out + 64, hello->nonce, PTL_NONCE_BYTES);
}

int ptl_auth_get_hello (uint8_t message, const uint8_t in[PTL_HELLO_BYTES],
                        struct ptl_hello *hello)
{
    if (memcmp (in, magic, sizeof (magic)) != 0 || in[4] != message)
        return PTL_FAIL;
    hello->version_min = in[5];
    hello->version_max = in[6];
    hello->version = in[7];
    hello->key_kind = in[8];
    hello->uid = ptl_get32 (in + 12);
    hello->job_id = ptl_get64 (in + 16);
    hello->expires = ptl_get64 (in + 24);
    hello->nid = ptl_get32 (in + 32);
    hello->pid = ptl_get32 (in + 36);
    hello->incarnation = ptl_get64 (in + 40);
    hello->intended_nid = ptl_get32 (in + 48);
    hello->intended_pid = ptl_get32 (in + 52);
    hello->offers = ptl_get32 (in + 56);
    hello->hint = ptl_get32 (in + 60);
    memcpy (hello->nonce, in + 64, PTL_NONCE_BYTES);
    if (hello->version_min == 0 || hello->version_min > hello->version_max
        || hello->key_kind < PTLX_KEY_PARTITION
        || hello->key_kind > PTLX_KEY_MUNGE || hello->nid == 0
        || hello->nid == PTL_NID_ANY || hello->pid == 0
        || hello->pid == PTL_PID_ANY)
        return PTL_FAIL;
    return PTL_OK;
}

void ptl_auth_listener_tag (const uint8_t *key, const uint8_t *m1,
                            const uint8_t *m2, uint8_t tag[PTL_TAG_BYTES])
{
    struct ptl_blake2b state;

    ptl_blake2b_init (&state, key, "yod.listener");
    ptl_blake2b_update (&state, m1, PTL_M1_BYTES);
    ptl_blake2b_update (&state, m2, PTL_HELLO_BYTES);
    ptl_blake2b_final (&state, tag);
}

void ptl_auth_put_m3 (const uint8_t *key, const uint8_t *m1,
                      const uint8_t *m2, uint8_t m3[PTL_M3_BYTES])
{
    struct ptl_blake2b state;

    memset (m3, 0, PTL_M3_BYTES);
    memcpy (m3, magic, sizeof (magic));
    m3[4] = 3;
    ptl_blake2b_init (&state, key, "yod.dialler");
    ptl_blake2b_update (&state, m1, PTL_M1_BYTES);
    ptl_blake2b_update (&state, m2, PTL_M2_BYTES);
    ptl_blake2b_final (&state, m3 + 8);
}

void ptl_auth_session (const uint8_t *key, const char *person,
                       const uint8_t *m1, const uint8_t *m2,
                       const uint8_t *m3, uint8_t out[PTLX_KEY_BYTES])
{
    struct ptl_blake2b state;
    uint8_t transcript[32];

    ptl_blake2b_init (&state, NULL, NULL);
    ptl_blake2b_update (&state, m1, PTL_M1_BYTES);
    ptl_blake2b_update (&state, m2, PTL_M2_BYTES);
    ptl_blake2b_update (&state, m3, PTL_M3_BYTES);
    ptl_blake2b_final (&state, transcript);
    ptl_auth_mac (key, person, transcript, sizeof (transcript), out);
}

void ptl_auth_put_m4 (const uint8_t *session, uint8_t code,
                      uint8_t version_min, uint8_t version_max,
                      uint8_t m4[PTL_M4_BYTES])
{
    memset (m4, 0, PTL_M4_BYTES);
    memcpy (m4, magic, sizeof (magic));
    m4[4] = 4;
    m4[5] = code;
    m4[6] = version_min;
    m4[7] = version_max;
    if (session)
        ptl_auth_mac (session, "yod.ready", m4, 8, m4 + 8);
}

static void put_start (uint8_t message, size_t length, uint8_t *out)
{
    memset (out, 0, PTL_START_BYTES);
    memcpy (out, magic, sizeof (magic));
    out[4] = message;
    out[6] = (uint8_t)length;
    out[7] = (uint8_t)(length >> 8);
}

void ptl_auth_put_m5 (const uint8_t *credential, size_t length, uint8_t *m5)
{
    put_start (5, length, m5);
    memcpy (m5 + PTL_START_BYTES, credential, length);
}

void ptl_auth_put_m6 (uint8_t m6[PTL_START_BYTES])
{
    put_start (6, 0, m6);
}

size_t ptl_auth_length (const uint8_t start[8])
{
    static const size_t lengths[] = {
        0, PTL_M1_BYTES, PTL_M2_BYTES, PTL_M3_BYTES, PTL_M4_BYTES,
        0, PTL_START_BYTES,
    };
    size_t length;

    if (memcmp (start, magic, sizeof (magic)) != 0 || start[4] > 6)
        return 0;
    if (start[4] == 5) {
        length = (size_t)start[6] | (size_t)start[7] << 8;
        return length == 0 || length > PTLX_CREDENTIAL_MAX_BYTES
                   ? 0
                   : PTL_START_BYTES + length;
    }
    return lengths[start[4]];
}
