#include "ptl_atomic.h"

#include <string.h>

#define N_OPS (PTL_MSWAP + 1)
#define N_TYPES (PTL_LONG_DOUBLE_COMPLEX + 1)

/* ---- rules ---- */

enum family { NO_TYPE = 0, INTEGER = 1, REAL = 2, COMPLEX = 4 };

static const struct {
    uint8_t size;
    uint8_t family;
} types[N_TYPES] = {
    [PTL_INT8_T] = { 1, INTEGER },
    [PTL_UINT8_T] = { 1, INTEGER },
    [PTL_INT16_T] = { 2, INTEGER },
    [PTL_UINT16_T] = { 2, INTEGER },
    [PTL_INT32_T] = { 4, INTEGER },
    [PTL_UINT32_T] = { 4, INTEGER },
    [PTL_INT64_T] = { 8, INTEGER },
    [PTL_UINT64_T] = { 8, INTEGER },
    [PTL_FLOAT] = { sizeof (float), REAL },
    [PTL_DOUBLE] = { sizeof (double), REAL },
    [PTL_LONG_DOUBLE] = { sizeof (long double), REAL },
    [PTL_FLOAT_COMPLEX] = { sizeof (float _Complex), COMPLEX },
    [PTL_DOUBLE_COMPLEX] = { sizeof (double _Complex), COMPLEX },
    [PTL_LONG_DOUBLE_COMPLEX] = { sizeof (long double _Complex), COMPLEX },
};

/* How an operand compares with the target. */
enum relation { LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8 };

static const struct {
    uint8_t families;
    bool swaps;
    uint8_t relations; /* of a conditional swap: when it takes place */
} ops[N_OPS] = {
    [PTL_MIN] = { INTEGER | REAL, false, 0 },
    [PTL_MAX] = { INTEGER | REAL, false, 0 },
    [PTL_SUM] = { INTEGER | REAL | COMPLEX, false, 0 },
    [PTL_PROD] = { INTEGER | REAL | COMPLEX, false, 0 },
    [PTL_LOR] = { INTEGER, false, 0 },
    [PTL_LAND] = { INTEGER, false, 0 },
    [PTL_LXOR] = { INTEGER, false, 0 },
    [PTL_BOR] = { INTEGER, false, 0 },
    [PTL_BAND] = { INTEGER, false, 0 },
    [PTL_BXOR] = { INTEGER, false, 0 },
    [PTL_SWAP] = { INTEGER | REAL | COMPLEX, true, 0 },
    [PTL_CSWAP] = { INTEGER | REAL | COMPLEX, true, EQUAL },
    [PTL_CSWAP_NE]
    = { INTEGER | REAL | COMPLEX, true, LESS | GREATER | UNORDERED },
    [PTL_CSWAP_LE] = { INTEGER | REAL, true, LESS | EQUAL },
    [PTL_CSWAP_LT] = { INTEGER | REAL, true, LESS },
    [PTL_CSWAP_GE] = { INTEGER | REAL, true, GREATER | EQUAL },
    [PTL_CSWAP_GT] = { INTEGER | REAL, true, GREATER },
    [PTL_MSWAP] = { INTEGER, true, 0 },
};

size_t ptl_atomic_size (unsigned type)
{
    return type < N_TYPES ? types[type].size : 0;
}

bool ptl_atomic_allows (enum ptl_atomic_call call, unsigned op, unsigned type)
{
    return op < N_OPS && type < N_TYPES
        && ops[op].swaps == (call == PTL_CALL_SWAP)
        && (ops[op].families & types[type].family);
}

bool ptl_atomic_needs_operand (unsigned op)
{
    return op == PTL_MSWAP || (op < N_OPS && ops[op].relations);
}

bool ptl_atomic_fits (unsigned op, unsigned type, uint64_t bytes)
{
    size_t size = ptl_atomic_size (type);

    if (ptl_atomic_needs_operand (op))
        return size && bytes == size;
    return size && bytes % size == 0;
}

/* ---- arithmetic: target t and data d, element by element ---- */

/* Elements at any alignment, in memory of any type. */
#define ELEMENT(type, name)                                             \
    typedef type name __attribute__ ((aligned (1), may_alias))

ELEMENT (int8_t, i8);
ELEMENT (uint8_t, u8);
ELEMENT (int16_t, i16);
ELEMENT (uint16_t, u16);
ELEMENT (int32_t, i32);
ELEMENT (uint32_t, u32);
ELEMENT (int64_t, i64);
ELEMENT (uint64_t, u64);
ELEMENT (float, f32);
ELEMENT (double, f64);
ELEMENT (long double, fld);
ELEMENT (float _Complex, c32);
ELEMENT (double _Complex, c64);
ELEMENT (long double _Complex, cld);

/* Blocks have a fixed size, so that compilers vectorise the loops at -O2. */
#define BLOCK_BYTES 64

_Static_assert (BLOCK_BYTES % PTL_ATOMIC_ELEMENT_MAX == 0, "whole elements");

typedef void kernel (void *restrict target, const void *restrict data,
                     size_t blocks);

#define KERNEL(name, type, result)                                      \
    static void name##_##type (void *restrict target,                   \
                               const void *restrict data,               \
                               size_t blocks)                           \
    {                                                                   \
        const size_t count = BLOCK_BYTES / sizeof (type);               \
        type *restrict to = target;                                     \
        const type *restrict from = data;                               \
                                                                        \
        for (; blocks; blocks--, to += count, from += count)            \
            for (size_t i = 0; i < count; i++) {                        \
                const type t = to[i], d = from[i];                      \
                                                                        \
                to[i] = (type)(result);                                 \
            }                                                           \
    }

#define SIGNED_KERNELS(name, result)                                    \
    KERNEL (name, i8, result)                                           \
    KERNEL (name, i16, result)                                          \
    KERNEL (name, i32, result)                                          \
    KERNEL (name, i64, result)

#define UNSIGNED_KERNELS(name, result)                                  \
    KERNEL (name, u8, result)                                           \
    KERNEL (name, u16, result)                                          \
    KERNEL (name, u32, result)                                          \
    KERNEL (name, u64, result)

#define REAL_KERNELS(name, result)                                      \
    KERNEL (name, f32, result)                                          \
    KERNEL (name, f64, result)                                          \
    KERNEL (name, fld, result)

#define COMPLEX_KERNELS(name, result)                                   \
    KERNEL (name, c32, result)                                          \
    KERNEL (name, c64, result)                                          \
    KERNEL (name, cld, result)

SIGNED_KERNELS (min, d < t ? d : t)
UNSIGNED_KERNELS (min, d < t ? d : t)
REAL_KERNELS (min, d < t || d != d ? d : t)
SIGNED_KERNELS (max, d > t ? d : t)
UNSIGNED_KERNELS (max, d > t ? d : t)
REAL_KERNELS (max, d > t || d != d ? d : t)

/* Unsigned for both signs: it wraps, and the bits are the same. 1u: the product
 * of two uint16_t would be an int, which may overflow. */
UNSIGNED_KERNELS (sum, t + d)
REAL_KERNELS (sum, t + d)
COMPLEX_KERNELS (sum, t + d)
UNSIGNED_KERNELS (prod, 1u * t * d)
REAL_KERNELS (prod, t * d)
COMPLEX_KERNELS (prod, t * d)

UNSIGNED_KERNELS (lor, (t != 0) | (d != 0))
UNSIGNED_KERNELS (land, (t != 0) & (d != 0))
UNSIGNED_KERNELS (lxor, (t != 0) ^ (d != 0))

/* Bits have no size. */
KERNEL (bor, u64, t | d)
KERNEL (band, u64, t & d)
KERNEL (bxor, u64, t ^ d)

#define OF_SIZES(u8, u16, u32, u64)                                     \
    [PTL_INT8_T] = u8, [PTL_UINT8_T] = u8, [PTL_INT16_T] = u16,         \
    [PTL_UINT16_T] = u16, [PTL_INT32_T] = u32, [PTL_UINT32_T] = u32,    \
    [PTL_INT64_T] = u64, [PTL_UINT64_T] = u64
#define OF_BITS(name) OF_SIZES (name, name, name, name)
#define OF_UNSIGNED(name)                                               \
    OF_SIZES (name##_u8, name##_u16, name##_u32, name##_u64)
#define OF_SIGNS(name)                                                  \
    [PTL_INT8_T] = name##_i8, [PTL_UINT8_T] = name##_u8,                \
    [PTL_INT16_T] = name##_i16, [PTL_UINT16_T] = name##_u16,            \
    [PTL_INT32_T] = name##_i32, [PTL_UINT32_T] = name##_u32,            \
    [PTL_INT64_T] = name##_i64, [PTL_UINT64_T] = name##_u64
#define OF_REALS(name)                                                  \
    [PTL_FLOAT] = name##_f32, [PTL_DOUBLE] = name##_f64,                \
    [PTL_LONG_DOUBLE] = name##_fld
#define OF_COMPLEXES(name)                                              \
    [PTL_FLOAT_COMPLEX] = name##_c32,                                   \
    [PTL_DOUBLE_COMPLEX] = name##_c64,                                  \
    [PTL_LONG_DOUBLE_COMPLEX] = name##_cld

static kernel *const kernels[N_OPS][N_TYPES] = {
    [PTL_MIN] = { OF_SIGNS (min), OF_REALS (min) },
    [PTL_MAX] = { OF_SIGNS (max), OF_REALS (max) },
    [PTL_SUM] = { OF_UNSIGNED (sum), OF_REALS (sum), OF_COMPLEXES (sum) },
    [PTL_PROD] = { OF_UNSIGNED (prod), OF_REALS (prod), OF_COMPLEXES (prod) },
    [PTL_LOR] = { OF_UNSIGNED (lor) },
    [PTL_LAND] = { OF_UNSIGNED (land) },
    [PTL_LXOR] = { OF_UNSIGNED (lxor) },
    [PTL_BOR] = { OF_BITS (bor_u64) },
    [PTL_BAND] = { OF_BITS (band_u64) },
    [PTL_BXOR] = { OF_BITS (bxor_u64) },
};

/* Fill the rest of the last block with zeros. */
static void combine (kernel *apply, uint8_t *target, const uint8_t *data,
                     size_t bytes)
{
    size_t rest = bytes % BLOCK_BYTES, whole = bytes - rest;
    uint8_t t[BLOCK_BYTES] = { 0 }, d[BLOCK_BYTES] = { 0 };

    if (whole)
        apply (target, data, whole / BLOCK_BYTES);
    if (!rest)
        return;
    memcpy (t, target + whole, rest);
    memcpy (d, data + whole, rest);
    apply (t, d, 1);
    memcpy (target + whole, t, rest);
}

/* ---- swaps ---- */

#define COMPARE_COMPLEX(type)                                           \
    (*(const type *)operand == *(const type *)target ? EQUAL : UNORDERED)
#define COMPARE(type)                                                   \
    (*(const type *)operand < *(const type *)target ? LESS              \
     : *(const type *)operand > *(const type *)target ? GREATER         \
     : COMPARE_COMPLEX (type))

static enum relation compare (unsigned type, const void *operand,
                              const void *target)
{
    switch ((ptl_datatype_t)type) {
    case PTL_INT8_T: return COMPARE (i8);
    case PTL_UINT8_T: return COMPARE (u8);
    case PTL_INT16_T: return COMPARE (i16);
    case PTL_UINT16_T: return COMPARE (u16);
    case PTL_INT32_T: return COMPARE (i32);
    case PTL_UINT32_T: return COMPARE (u32);
    case PTL_INT64_T: return COMPARE (i64);
    case PTL_UINT64_T: return COMPARE (u64);
    case PTL_FLOAT: return COMPARE (f32);
    case PTL_DOUBLE: return COMPARE (f64);
    case PTL_LONG_DOUBLE: return COMPARE (fld);
    case PTL_FLOAT_COMPLEX: return COMPARE_COMPLEX (c32);
    case PTL_DOUBLE_COMPLEX: return COMPARE_COMPLEX (c64);
    case PTL_LONG_DOUBLE_COMPLEX: return COMPARE_COMPLEX (cld);
    }
    return UNORDERED;
}

static void swap_under_mask (uint8_t *target, const uint8_t *mask,
                             const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        target[i] = (uint8_t)((target[i] & ~mask[i]) | (data[i] & mask[i]));
}

void ptl_atomic_apply (unsigned op, unsigned type, void *target,
                       const void *operand, const void *data, size_t bytes)
{
    if (!ptl_atomic_fits (op, type, bytes) || bytes == 0)
        return;
    if (ptl_atomic_allows (PTL_CALL_ATOMIC, op, type))
        combine (kernels[op][type], target, data, bytes);
    else if (!ptl_atomic_allows (PTL_CALL_SWAP, op, type))
        return;
    else if (op == PTL_MSWAP)
        swap_under_mask (target, operand, data, bytes);
    else if (op == PTL_SWAP
             || (compare (type, operand, target) & ops[op].relations))
        memcpy (target, data, bytes);
}
