/* ptl_bytes.h - little-endian numbers in byte arrays of any alignment. */
#ifndef PTL_BYTES_H
#define PTL_BYTES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline void ptl_put16 (uint8_t *p, uint16_t v)
{
    v = htole16 (v);
    memcpy (p, &v, sizeof (v));
}

static inline void ptl_put32 (uint8_t *p, uint32_t v)
{
    v = htole32 (v);
    memcpy (p, &v, sizeof (v));
}

static inline void ptl_put64 (uint8_t *p, uint64_t v)
{
    v = htole64 (v);
    memcpy (p, &v, sizeof (v));
}

static inline uint16_t ptl_get16 (const uint8_t *p)
{
    uint16_t v;

    memcpy (&v, p, sizeof (v));
    return le16toh (v);
}

static inline uint32_t ptl_get32 (const uint8_t *p)
{
    uint32_t v;

    memcpy (&v, p, sizeof (v));
    return le32toh (v);
}

static inline uint64_t ptl_get64 (const uint8_t *p)
{
    uint64_t v;

    memcpy (&v, p, sizeof (v));
    return le64toh (v);
}

#endif
