/* PtlNIInit (spec 3.6.1, 3.6.2): a desired limit above 0 is granted exactly, also below
 * what an interface has by itself; 0 means the default, more than can be is
 * capped. actual->features are those desired and supported; when desired is
 * null, those that cost nothing. A second PtlNIInit ignores what it desires and says what
 * was granted.
 * kinds: all */
#include "kinds.h"

#include <limits.h>

#define LIMIT(name) { #name, offsetof (ptl_ni_limits_t, name), 0 }
#define BYTES(name) { #name, offsetof (ptl_ni_limits_t, name), 1 }

static const struct {
    const char *name;
    size_t at;
    int is_bytes;
} limits[] = {
    LIMIT (max_entries),
    LIMIT (max_unexpected_headers),
    LIMIT (max_mds),
    LIMIT (max_cts),
    LIMIT (max_eqs),
    LIMIT (max_pt_index),
    LIMIT (max_iovecs),
    LIMIT (max_list_size),
    LIMIT (max_triggered_ops),
    BYTES (max_msg_size),
    BYTES (max_atomic_size),
    BYTES (max_fetch_atomic_size),
    BYTES (max_waw_ordered_size),
    BYTES (max_war_ordered_size),
    BYTES (max_volatile_size),
};

#define LIMITS ((int)(sizeof (limits) / sizeof (*limits)))

static uint64_t get (const ptl_ni_limits_t *of, int i)
{
    const char *field = (const char *)of + limits[i].at;

    return limits[i].is_bytes ? *(const ptl_size_t *)field
                              : (uint64_t)*(const int *)field;
}

static void set (ptl_ni_limits_t *of, int i, uint64_t value)
{
    char *field = (char *)of + limits[i].at;

    if (limits[i].is_bytes)
        *(ptl_size_t *)field = value;
    else
        *(int *)field = (int)value;
}

static ptl_handle_ni_t init (const ptl_ni_limits_t *desired,
                             ptl_ni_limits_t *actual)
{
    ptl_handle_ni_t ni;

    CHECK (PtlNIInit (PTL_IFACE_DEFAULT, NI_OPTIONS, PTL_PID_ANY, desired,
                      actual, &ni)
           == PTL_OK);
    return ni;
}

static ptl_ni_limits_t grant (const ptl_ni_limits_t *desired)
{
    ptl_ni_limits_t actual;

    memset (&actual, 0xff, sizeof (actual));
    CHECK (PtlNIFini (init (desired, &actual)) == PTL_OK);
    return actual;
}

/* One is wished, the others are not. */
static void check_one (const ptl_ni_limits_t *defaults, int which,
                       uint64_t wish)
{
    ptl_ni_limits_t desired = { 0 }, actual;

    set (&desired, which, wish);
    actual = grant (&desired);
    for (int i = 0; i < LIMITS; i++) {
        uint64_t wanted = i == which ? wish : get (defaults, i);

        if (get (&actual, i) == wanted)
            continue;
        fprintf (stderr, "%s: %llu in place of %llu\n", limits[i].name,
                 (unsigned long long)get (&actual, i),
                 (unsigned long long)wanted);
        exit (1);
    }
}

static void check_features (void)
{
    ptl_ni_limits_t desired = { 0 };
    unsigned all = PTL_TOTAL_DATA_ORDERING | PTL_TARGET_BIND_INACCESSIBLE;

    CHECK (grant (NULL).features == PTL_TOTAL_DATA_ORDERING);
    for (int bit = 0; bit < 32; bit++) {
        desired.features = 1u << bit;
        CHECK (grant (&desired).features == (desired.features & all));
    }
    desired.features = UINT_MAX;
    CHECK (grant (&desired).features == all);
    desired.features = 0;
    CHECK (grant (&desired).features == 0);
}

/* Who comes later gets what there is. */
static void check_second (void)
{
    ptl_ni_limits_t desired = { .max_eqs = 3 }, actual;
    ptl_handle_ni_t first, second;

    first = init (&desired, NULL); /* not asked for */
    desired.max_eqs = 300;
    second = init (&desired, &actual);
    CHECK (first == second && actual.max_eqs == 3);
    CHECK (PtlNIFini (second) == PTL_OK && PtlNIFini (first) == PTL_OK);
}

int main (void)
{
    ptl_ni_limits_t zero = { 0 }, most, defaults, capped;

    CHECK (PtlInit () == PTL_OK);
    defaults = grant (NULL);
    zero = grant (&zero);
    CHECK (defaults.max_pt_index >= 63);
    CHECK (defaults.max_waw_ordered_size >= 64);
    CHECK (defaults.max_war_ordered_size >= 8);
    memset (&most, 0, sizeof (most));
    for (int i = 0; i < LIMITS; i++)
        set (&most, i, limits[i].is_bytes ? UINT64_MAX : (uint64_t)INT_MAX);
    capped = grant (&most);
    for (int i = 0; i < LIMITS; i++) {
        CHECK (get (&defaults, i) > 0);
        CHECK (get (&zero, i) == get (&defaults, i));
        CHECK (get (&capped, i) >= get (&defaults, i));
        CHECK (get (&capped, i) < get (&most, i));
        check_one (&defaults, i, 1);
        check_one (&defaults, i, 7);
        check_one (&defaults, i, get (&defaults, i));
        check_one (&defaults, i, get (&capped, i));
        check_one (&defaults, i, get (&capped, i) - 1);
    }
    check_features ();
    check_second ();
    PtlFini ();
    return 0;
}
