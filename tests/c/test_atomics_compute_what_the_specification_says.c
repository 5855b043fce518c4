/* Every operation with every type against a second way to compute it:
 * integers of 128 bits. Reals hold small whole numbers there; NaNs, zeros of
 * both signs, overflow and padding have cases of their own. */
#include "harness.h"
#include "ptl_atomic.h"

#include <complex.h>
#include <float.h>
#include <math.h>

#define N_OPS 18
#define N_TYPES 14
#define ELEMENTS_MAX 99
#define LONG_DOUBLE_BYTES (LDBL_MANT_DIG == 64 ? 10 : 16) /* without padding */

typedef __int128 wide;

/* a: Atomic and FetchAtomic, s: Swap. Types in the order of the interface:
 * integers of 8, 16 and 32 bits, float and its complex, integers of 64 bits,
 * double, its complex, long double, its complex. */
static const char allowed[N_OPS][N_TYPES + 1] = {
    [PTL_MIN] = "aaaaaaa.aaa.a.",
    [PTL_MAX] = "aaaaaaa.aaa.a.",
    [PTL_SUM] = "aaaaaaaaaaaaaa",
    [PTL_PROD] = "aaaaaaaaaaaaaa",
    [PTL_LOR] = "aaaaaa..aa....",
    [PTL_LAND] = "aaaaaa..aa....",
    [PTL_BOR] = "aaaaaa..aa....",
    [PTL_BAND] = "aaaaaa..aa....",
    [PTL_LXOR] = "aaaaaa..aa....",
    [PTL_BXOR] = "aaaaaa..aa....",
    [PTL_SWAP] = "ssssssssssssss",
    [PTL_CSWAP] = "ssssssssssssss",
    [PTL_CSWAP_NE] = "ssssssssssssss",
    [PTL_CSWAP_LE] = "sssssss.sss.s.",
    [PTL_CSWAP_LT] = "sssssss.sss.s.",
    [PTL_CSWAP_GE] = "sssssss.sss.s.",
    [PTL_CSWAP_GT] = "sssssss.sss.s.",
    [PTL_MSWAP] = "ssssss..ss....",
};

static const size_t sizes[N_TYPES] = { 1, 1, 2, 2, 4, 4, 4, 8, 8, 8, 8, 16,
                                       sizeof (long double),
                                       2 * sizeof (long double) };

static bool is_integer (unsigned type)
{
    return allowed[PTL_BOR][type] == 'a';
}

static bool is_complex (unsigned type)
{
    return allowed[PTL_MIN][type] == '.';
}

/* A value of any type; im is 0 but for complex ones. */
struct number {
    wide re, im;
};

static struct number load (unsigned type, const void *from)
{
    uint8_t bytes[32];
    struct number n = { 0, 0 };
    float f[2];
    double d[2];
    long double ld[2];

    memcpy (bytes, from, sizes[type]);
    memcpy (f, bytes, sizeof (f));
    memcpy (d, bytes, sizeof (d));
    memcpy (ld, bytes, sizeof (ld));
    switch (type) {
    case PTL_FLOAT_COMPLEX:
        n.im = (wide)f[1]; /* fallthrough */
    case PTL_FLOAT:
        n.re = (wide)f[0];
        return n;
    case PTL_DOUBLE_COMPLEX:
        n.im = (wide)d[1]; /* fallthrough */
    case PTL_DOUBLE:
        n.re = (wide)d[0];
        return n;
    case PTL_LONG_DOUBLE_COMPLEX:
        n.im = (wide)ld[1]; /* fallthrough */
    case PTL_LONG_DOUBLE:
        n.re = (wide)ld[0];
        return n;
    }
    for (size_t i = 0; i < sizes[type]; i++)
        n.re |= (wide)bytes[i] << (8 * i);
    /* Signed ones have even numbers. */
    if (type % 2 == 0 && n.re >> (8 * sizes[type] - 1))
        n.re -= (wide)1 << (8 * sizes[type]);
    return n;
}

/* What does not fit an integer is cut off. */
static void store (unsigned type, struct number n, void *to)
{
    uint8_t bytes[32] = { 0 };
    float f[2] = { (float)n.re, (float)n.im };
    double d[2] = { (double)n.re, (double)n.im };
    long double ld[2] = { (long double)n.re, (long double)n.im };

    if (is_integer (type))
        for (size_t i = 0; i < sizes[type]; i++)
            bytes[i] = (uint8_t)(n.re >> (8 * i));
    else if (type == PTL_FLOAT || type == PTL_FLOAT_COMPLEX)
        memcpy (bytes, f, sizeof (f));
    else if (type == PTL_DOUBLE || type == PTL_DOUBLE_COMPLEX)
        memcpy (bytes, d, sizeof (d));
    else
        memcpy (bytes, ld, sizeof (ld));
    memcpy (to, bytes, sizes[type]);
}

static struct number product (struct number a, struct number b)
{
    typedef unsigned __int128 bits; /* 2^64 squared */

    return (struct number){
        (wide)((bits)a.re * (bits)b.re - (bits)a.im * (bits)b.im),
        (wide)((bits)a.re * (bits)b.im + (bits)a.im * (bits)b.re),
    };
}

static struct number expected (unsigned op, struct number target,
                               struct number operand, struct number data)
{
    wide t = target.re, o = operand.re, d = data.re;
    bool same = o == t && operand.im == target.im;

    switch (op) {
    case PTL_MIN: return d < t ? data : target;
    case PTL_MAX: return d > t ? data : target;
    case PTL_SUM: return (struct number){ t + d, target.im + data.im };
    case PTL_PROD: return product (target, data);
    case PTL_LOR: return (struct number){ t || d, 0 };
    case PTL_LAND: return (struct number){ t && d, 0 };
    case PTL_LXOR: return (struct number){ !t != !d, 0 };
    case PTL_BOR: return (struct number){ t | d, 0 };
    case PTL_BAND: return (struct number){ t & d, 0 };
    case PTL_BXOR: return (struct number){ t ^ d, 0 };
    case PTL_SWAP: return data;
    case PTL_CSWAP: return same ? data : target;
    case PTL_CSWAP_NE: return same ? target : data;
    case PTL_CSWAP_LE: return o <= t ? data : target;
    case PTL_CSWAP_LT: return o < t ? data : target;
    case PTL_CSWAP_GE: return o >= t ? data : target;
    case PTL_CSWAP_GT: return o > t ? data : target;
    default: return (struct number){ (t & ~o) | (d & o), 0 };
    }
}

static uint32_t dice (uint32_t sides)
{
    static uint32_t seed = 1;

    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % sides;
}

/* Often small or at the ends of the range, so that values meet. */
static struct number some_number (unsigned type)
{
    wide small = (wide)dice (5) - 2, top;

    if (!is_integer (type))
        return (struct number){ small, is_complex (type) ? dice (2) : 0 };
    top = (wide)1 << (8 * sizes[type] - 1);
    switch (dice (4)) {
    case 0: return (struct number){ top + small, 0 };
    case 1:
        for (int i = 0; i < 8; i++)
            small = small * 256 + dice (256);
        return (struct number){ small, 0 };
    default: return (struct number){ small, 0 };
    }
}

struct memory {
    uint8_t target[ELEMENTS_MAX * 32 + 64];
    uint8_t before[ELEMENTS_MAX * 32 + 64];
    uint8_t data[ELEMENTS_MAX * 32 + 64];
    uint8_t operand[64];
};

static void fill (unsigned type, uint8_t *at, size_t count)
{
    for (size_t i = 0; i < count; i++)
        store (type, some_number (type), at + i * sizes[type]);
}

/* One call, the pieces at `shift` from an aligned address. */
static void check_call (struct memory *m, unsigned op, unsigned type,
                        size_t count, size_t shift)
{
    size_t size = sizes[type], bytes = count * size;
    uint8_t *target = m->target + shift, *data = m->data + 2 * shift;
    uint8_t *operand = m->operand + 3 * (shift % 8);
    bool needs = ptl_atomic_needs_operand (op);

    memset (m->target, 0xa5, sizeof (m->target));
    fill (type, target, count);
    fill (type, data, count);
    fill (type, operand, 1);
    memcpy (m->before, m->target, sizeof (m->before));
    ptl_atomic_apply (op, type, target, needs ? operand : NULL, data, bytes);
    for (size_t at = 0; at < bytes; at += size) {
        struct number want, got = load (type, target + at);

        want = expected (op, load (type, m->before + shift + at),
                         load (type, operand), load (type, data + at));
        store (type, want, m->before + shift + at);
        want = load (type, m->before + shift + at);
        CHECK (want.re == got.re && want.im == got.im);
    }
    memcpy (m->before + shift, target, bytes);
    CHECK (memcmp (m->before, m->target, sizeof (m->target)) == 0);
}

static void check_values (struct memory *m, unsigned op, unsigned type)
{
    bool one = ptl_atomic_needs_operand (op);

    for (size_t shift = 0; shift < 16; shift++)
        for (int again = 0; again < 20; again++)
            check_call (m, op, type, 1, shift);
    for (size_t shift = 0; !one && shift < 16; shift++)
        for (size_t count = 0; count <= ELEMENTS_MAX; count += 1 + count / 3)
            check_call (m, op, type, count, shift);
}

static void check_rules (unsigned op, unsigned type)
{
    bool known = op < N_OPS && type < N_TYPES;
    char rule = known ? allowed[op][type] : '.';
    bool one = op > PTL_SWAP && op <= PTL_MSWAP;
    uint8_t target[32] = { 1, 2, 3 }, data[32] = { 4, 5, 6 };
    uint8_t before[32];

    CHECK (ptl_atomic_allows (PTL_CALL_ATOMIC, op, type) == (rule == 'a'));
    CHECK (ptl_atomic_allows (PTL_CALL_FETCH_ATOMIC, op, type)
           == (rule == 'a'));
    CHECK (ptl_atomic_allows (PTL_CALL_SWAP, op, type) == (rule == 's'));
    CHECK (ptl_atomic_needs_operand (op) == one);
    if (type < N_TYPES) {
        size_t size = sizes[type];

        CHECK (ptl_atomic_size (type) == size);
        CHECK (ptl_atomic_fits (op, type, size));
        CHECK (ptl_atomic_fits (op, type, 0) == !one);
        CHECK (ptl_atomic_fits (op, type, 3 * size) == !one);
        CHECK (ptl_atomic_fits (op, type, size + 1) == (size == 1 && !one));
    } else {
        CHECK (ptl_atomic_size (type) == 0);
        CHECK (!ptl_atomic_fits (op, type, 0));
    }
    if (rule != '.')
        return;
    memcpy (before, target, sizeof (before));
    ptl_atomic_apply (op, type, target, data, data,
                      type < N_TYPES ? sizes[type] : 8);
    CHECK (memcmp (before, target, sizeof (before)) == 0);
}

/* Lengths that do not fit change nothing. */
static void check_lengths (void)
{
    uint64_t target[2] = { 1, 2 }, data[2] = { 3, 4 }, one = 1;

    ptl_atomic_apply (PTL_SUM, PTL_UINT64_T, target, NULL, data, 12);
    ptl_atomic_apply (PTL_CSWAP, PTL_UINT64_T, target, &one, data, 16);
    ptl_atomic_apply (PTL_MSWAP, PTL_UINT64_T, target, &one, data, 4);
    CHECK (target[0] == 1 && target[1] == 2);
}

static void check_wrap (void)
{
    int64_t least = INT64_MIN, minus = -1, most = INT64_MAX;
    uint16_t u = 65535, v = 65535;
    int8_t a = 100, b = 100;

    ptl_atomic_apply (PTL_SUM, PTL_INT64_T, &most, NULL, &most, 8);
    CHECK (most == -2);
    ptl_atomic_apply (PTL_PROD, PTL_INT64_T, &minus, NULL, &least, 8);
    CHECK (minus == INT64_MIN);
    ptl_atomic_apply (PTL_SUM, PTL_INT64_T, &minus, NULL, &least, 8);
    CHECK (minus == 0);
    ptl_atomic_apply (PTL_PROD, PTL_UINT16_T, &u, NULL, &v, 2);
    CHECK (u == 1);
    ptl_atomic_apply (PTL_SUM, PTL_INT8_T, &a, NULL, &b, 1);
    CHECK (a == -56);
}

/* One real element of each type; what is meant is told by its text. */
#define REAL_CASE(op, type, target, operand, data, holds)               \
    do {                                                                \
        union {                                                         \
            type value;                                                 \
            uint8_t bytes[sizeof (type)];                               \
        } t_, o_, d_;                                                   \
        unsigned type_ = sizeof (type) == sizeof (float) ? PTL_FLOAT    \
            : sizeof (type) == sizeof (double) ? PTL_DOUBLE             \
                                               : PTL_LONG_DOUBLE;       \
                                                                        \
        memset (&t_, 0x11, sizeof (t_));                                \
        memset (&o_, 0x22, sizeof (o_));                                \
        memset (&d_, 0x33, sizeof (d_));                                \
        t_.value = (type)(target);                                      \
        o_.value = (type)(operand);                                     \
        d_.value = (type)(data);                                        \
        ptl_atomic_apply (op, type_, &t_, &o_, &d_, sizeof (type));     \
        {                                                               \
            type r = t_.value;                                          \
                                                                        \
            CHECK (holds);                                              \
        }                                                               \
    } while (0)

#define REAL_CASES(type)                                                \
    do {                                                                \
        REAL_CASE (PTL_SUM, type, 0.5, 0, 0.25, r == (type)0.75);       \
        REAL_CASE (PTL_PROD, type, -1.5, 0, 0.5, r == (type)-0.75);     \
        REAL_CASE (PTL_SUM, type, INFINITY, 0, -INFINITY, isnan (r));   \
        REAL_CASE (PTL_MIN, type, 1, 0, -INFINITY, r < 0 && isinf (r)); \
        REAL_CASE (PTL_MIN, type, NAN, 0, 1, isnan (r));                \
        REAL_CASE (PTL_MIN, type, 1, 0, NAN, isnan (r));                \
        REAL_CASE (PTL_MAX, type, NAN, 0, 1, isnan (r));                \
        REAL_CASE (PTL_MAX, type, 1, 0, NAN, isnan (r));                \
        REAL_CASE (PTL_MIN, type, 0.0, 0, -0.0, !signbit (r));          \
        REAL_CASE (PTL_MIN, type, -0.0, 0, 0.0, !!signbit (r));         \
        REAL_CASE (PTL_MAX, type, 0.0, 0, -0.0, !signbit (r));          \
        REAL_CASE (PTL_MAX, type, -0.0, 0, 0.0, !!signbit (r));         \
        REAL_CASE (PTL_CSWAP, type, 0.0, -0.0, 7, r == 7);              \
        REAL_CASE (PTL_CSWAP_NE, type, 0.0, -0.0, 7, r == 0);           \
        REAL_CASE (PTL_CSWAP_LT, type, 0.0, -0.0, 7, r == 0);           \
        REAL_CASE (PTL_CSWAP_GE, type, -0.0, 0.0, 7, r == 7);           \
        REAL_CASE (PTL_CSWAP, type, NAN, NAN, 7, isnan (r));            \
        REAL_CASE (PTL_CSWAP_NE, type, NAN, NAN, 7, r == 7);            \
        REAL_CASE (PTL_CSWAP_NE, type, 1, NAN, 7, r == 7);              \
        REAL_CASE (PTL_CSWAP_LE, type, 1, NAN, 7, r == 1);              \
        REAL_CASE (PTL_CSWAP_LT, type, 1, NAN, 7, r == 1);              \
        REAL_CASE (PTL_CSWAP_GE, type, NAN, 1, 7, isnan (r));           \
        REAL_CASE (PTL_CSWAP_GT, type, NAN, 1, 7, isnan (r));           \
        REAL_CASE (PTL_CSWAP_GT, type, 1.5, 1.75, NAN, isnan (r));      \
    } while (0)

/* Equal when both parts are; a NaN in one part makes it unequal. */
static void check_complex (void)
{
    double _Complex t = CMPLX (1, 2), o = CMPLX (1, 3), d = CMPLX (5, 6);
    float _Complex tf = CMPLXF (0, -0.0f), of = CMPLXF (-0.0f, 0);
    float _Complex df = CMPLXF (1, 1);
    long double _Complex tl = CMPLXL (1, NAN), dl = CMPLXL (3, 4);
    double _Complex huge = CMPLX (INFINITY, INFINITY);

    ptl_atomic_apply (PTL_CSWAP, PTL_DOUBLE_COMPLEX, &t, &o, &d, sizeof (t));
    CHECK (creal (t) == 1 && cimag (t) == 2);
    ptl_atomic_apply (PTL_CSWAP_NE, PTL_DOUBLE_COMPLEX, &t, &o, &d,
                      sizeof (t));
    CHECK (creal (t) == 5 && cimag (t) == 6);
    ptl_atomic_apply (PTL_CSWAP, PTL_FLOAT_COMPLEX, &tf, &of, &df,
                      sizeof (tf));
    CHECK (crealf (tf) == 1 && cimagf (tf) == 1);
    ptl_atomic_apply (PTL_CSWAP, PTL_LONG_DOUBLE_COMPLEX, &tl, &tl, &dl,
                      sizeof (tl));
    CHECK (creall (tl) == 1);
    ptl_atomic_apply (PTL_PROD, PTL_DOUBLE_COMPLEX, &t, NULL, &huge,
                      sizeof (t));
    CHECK (isinf (creal (t)) || isinf (cimag (t)));
}

/* Swaps move bits, not values: padding and NaNs arrive as they were sent.
 * Padding does not count when values are compared. */
static void check_bits (void)
{
    static const uint8_t quiet[4] = { 0x34, 0x12, 0xc0, 0x7f };
    static const uint8_t loud[4] = { 0x78, 0x56, 0xa0, 0xff };
    uint8_t target[32], before[32], operand[32], data[32];
    long double one = 1, two = 2;

    for (unsigned op = PTL_SWAP; op <= PTL_CSWAP_GT; op++) {
        memcpy (target, quiet, 4);
        ptl_atomic_apply (op, PTL_FLOAT, target, quiet, loud, 4);
        CHECK (memcmp (target, op == PTL_SWAP || op == PTL_CSWAP_NE
                       ? loud : quiet, 4) == 0);
    }
    for (unsigned op = PTL_SWAP; op <= PTL_CSWAP_GT; op++) {
        bool equal = op == PTL_SWAP || op == PTL_CSWAP || op == PTL_CSWAP_LE
            || op == PTL_CSWAP_GE;

        memset (target, 0x11, sizeof (target));
        memset (operand, 0x22, sizeof (operand));
        memset (data, 0x33, sizeof (data));
        memcpy (target, &one, LONG_DOUBLE_BYTES);
        memcpy (operand, &one, LONG_DOUBLE_BYTES);
        memcpy (data, &two, LONG_DOUBLE_BYTES);
        memcpy (before, target, sizeof (target));
        ptl_atomic_apply (op, PTL_LONG_DOUBLE, target, operand, data, 16);
        CHECK ((memcmp (target, data, 16) == 0) == equal);
        CHECK (target[15] == (equal ? data : before)[15]);
        CHECK (target[16] == 0x11);
    }
}

static void check_mask (void)
{
    uint32_t target = 0x12345678, mask = 0x00ffff0f, data = 0xabcdef01;

    ptl_atomic_apply (PTL_MSWAP, PTL_UINT32_T, &target, &mask, &data, 4);
    CHECK (target == 0x12cdef71);
}

int main (void)
{
    static struct memory m;
    static const unsigned strange[] = { 18, 19, 255, 256, UINT32_MAX };

    for (unsigned op = 0; op < N_OPS; op++)
        for (unsigned type = 0; type < N_TYPES; type++) {
            check_rules (op, type);
            if (allowed[op][type] != '.')
                check_values (&m, op, type);
        }
    for (size_t i = 0; i < sizeof (strange) / sizeof (*strange); i++) {
        check_rules (strange[i], PTL_INT32_T);
        check_rules (PTL_SUM, strange[i]);
        check_rules (PTL_CSWAP, strange[i]);
        check_rules (strange[i], strange[i]);
    }
    check_rules (PTL_SUM, N_TYPES);
    check_lengths ();
    check_wrap ();
    REAL_CASES (float);
    REAL_CASES (double);
    REAL_CASES (long double);
    check_complex ();
    check_bits ();
    check_mask ();
    return 0;
}
