/* PtlPut, PtlGet, PtlAtomic, PtlFetchAtomic, PtlSwap and their triggered forms (spec 3.15,
 * 3.16): PTL_ARG_INVALID for bytes outside a descriptor, an acknowledgement
 * whose event queue or counter the descriptor lacks, a length above the limit
 * of the interface, a target that is no process, a portal index that no table
 * has, and operations and types that do not go together. What is refused has
 * not begun: the descriptors can be released. A portal index above the limit
 * of the initiator is one of the target's affair.
 * kinds: all */
#include "calls.h"

#define SIZE 64
#define MESSAGE 48 /* the limits */
#define ATOMIC 40
#define FETCH 32

enum what { PUT, GET, ATOMIC_ON, FETCHING, SWAPPING, WHATS };

struct move {
    ptl_handle_md_t md, get_md;
    uint64_t at, get_at, length;
    ptl_ack_req_t ack;
    ptl_process_t target;
    ptl_pt_index_t index;
    ptl_op_t operation;
    ptl_datatype_t datatype;
    const void *operand;
};

static ptl_handle_ni_t ni;
static ptl_handle_eq_t eq;
static ptl_handle_ct_t ct;
static ptl_handle_md_t full, bare, vector;
static struct move usual;
static char memory[SIZE];

/* ---- one operation ---- */

#define TO m->target, m->index, 0, 0, NULL

static int now (enum what what, const struct move *m)
{
    switch (what) {
    case PUT:
        return PtlPut (m->md, m->at, m->length, m->ack, TO, 0);
    case GET:
        return PtlGet (m->get_md, m->get_at, m->length, TO);
    case ATOMIC_ON:
        return PtlAtomic (m->md, m->at, m->length, m->ack, TO, 0,
                          m->operation, m->datatype);
    case FETCHING:
        return PtlFetchAtomic (m->get_md, m->get_at, m->md, m->at, m->length,
                               TO, 0, m->operation, m->datatype);
    default:
        return PtlSwap (m->get_md, m->get_at, m->md, m->at, m->length, TO, 0,
                        m->operand, m->operation, m->datatype);
    }
}

static int later (enum what what, const struct move *m)
{
    ptl_handle_ct_t trigger;
    int rc;

    CHECK (PtlCTAlloc (ni, &trigger) == PTL_OK);
    switch (what) {
    case PUT:
        rc = PtlTriggeredPut (m->md, m->at, m->length, m->ack, TO, 0, trigger,
                              1);
        break;
    case GET:
        rc = PtlTriggeredGet (m->get_md, m->get_at, m->length, TO, trigger,
                              1);
        break;
    case ATOMIC_ON:
        rc = PtlTriggeredAtomic (m->md, m->at, m->length, m->ack, TO, 0,
                                 m->operation, m->datatype, trigger, 1);
        break;
    case FETCHING:
        rc = PtlTriggeredFetchAtomic (m->get_md, m->get_at, m->md, m->at,
                                      m->length, TO, 0, m->operation,
                                      m->datatype, trigger, 1);
        break;
    default:
        rc = PtlTriggeredSwap (m->get_md, m->get_at, m->md, m->at, m->length,
                               TO, 0, m->operand, m->operation, m->datatype,
                               trigger, 1);
    }
    CHECK (PtlCTFree (trigger) == PTL_OK);
    return rc;
}

/* What every operation that it concerns says. */
static void check (const struct move *m, unsigned whats, int wanted)
{
    for (enum what what = PUT; what < WHATS; what++) {
        struct move own = *m;

        if (!(whats & 1u << what))
            continue;
        if (what == SWAPPING && own.operation == usual.operation)
            own.operation = PTL_SWAP;
        if (now (what, &own) == wanted && later (what, &own) == wanted)
            continue;
        fprintf (stderr, "operation %d: not %d\n", (int)what, wanted);
        exit (1);
    }
}

#define ALL ((1u << WHATS) - 1)
#define WITH_MD (ALL & ~(1u << GET))
#define WITH_GET_MD (1u << GET | 1u << FETCHING | 1u << SWAPPING)
#define WITH_ACK (1u << PUT | 1u << ATOMIC_ON)
#define FETCHES (1u << FETCHING | 1u << SWAPPING)
#define ATOMICS (1u << ATOMIC_ON | FETCHES)

/* ---- what can be wrong ---- */

static void check_bytes (void)
{
    static const struct {
        uint64_t at, length;
    } outside[] = {
        { 0, SIZE + 8 },  { SIZE, 8 },       { SIZE - 4, 8 },
        { SIZE + 8, 0 },  { UINT64_MAX, 8 }, { 8, UINT64_MAX - 7 },
        { UINT64_MAX, 0 }, { UINT64_MAX - 7, 8 },
    };
    struct move m;

    for (size_t i = 0; i < sizeof (outside) / sizeof (*outside); i++)
        for (int is_vector = 0; is_vector < 2; is_vector++) {
            m = usual;
            m.length = outside[i].length;
            m.at = outside[i].at;
            m.md = is_vector ? vector : full;
            check (&m, WITH_MD, PTL_ARG_INVALID);
            m = usual;
            m.length = outside[i].length;
            m.get_at = outside[i].at;
            m.get_md = is_vector ? vector : full;
            check (&m, WITH_GET_MD, PTL_ARG_INVALID);
        }
    m = usual;
    m.at = m.get_at = SIZE - 8;
    check (&m, ALL, PTL_OK);
    m.at = m.get_at = SIZE;
    m.length = 0;
    check (&m, ALL, PTL_OK);
    m.md = m.get_md = vector;
    check (&m, ALL, PTL_OK);
}

static void check_acks (void)
{
    struct move m = usual;

    for (int ack = PTL_NO_ACK_REQ; ack <= PTL_OC_ACK_REQ; ack++) {
        m.md = full;
        m.ack = (ptl_ack_req_t)ack;
        check (&m, WITH_ACK, PTL_OK);
        m.md = bare;
        check (&m, WITH_ACK, ack == PTL_NO_ACK_REQ ? PTL_OK : PTL_ARG_INVALID);
    }
    m.md = full;
    m.ack = (ptl_ack_req_t)4;
    check (&m, WITH_ACK, PTL_ARG_INVALID);
    m.ack = (ptl_ack_req_t)0xffff;
    check (&m, WITH_ACK, PTL_ARG_INVALID);
}

static void check_lengths (void)
{
    struct move m = usual;

    m.length = MESSAGE;
    check (&m, 1u << PUT | 1u << GET, PTL_OK);
    m.length = MESSAGE + 1;
    check (&m, 1u << PUT | 1u << GET, PTL_ARG_INVALID);
    m.length = ATOMIC;
    check (&m, 1u << ATOMIC_ON, PTL_OK);
    m.length = ATOMIC + 8;
    check (&m, 1u << ATOMIC_ON, PTL_ARG_INVALID);
    m.length = FETCH;
    check (&m, FETCHES, PTL_OK);
    m.length = FETCH + 8;
    check (&m, FETCHES, PTL_ARG_INVALID);
}

static void check_targets (void)
{
    static const ptl_process_t nobody[] = {
        { .phys = { 0, 80 } },           { .phys = { LOOPBACK, 0 } },
        { .phys = { PTL_NID_ANY, 80 } }, { .phys = { LOOPBACK, PTL_PID_ANY } },
    };
    struct move m = usual;

    for (size_t i = 0; !IS_LOGICAL && i < 4; i++) {
        m.target = nobody[i];
        check (&m, ALL, PTL_ARG_INVALID);
    }
    m.target.rank = 1; /* of 1 */
    if (IS_LOGICAL)
        check (&m, ALL, PTL_ARG_INVALID);
    m.target.rank = PTL_RANK_ANY;
    if (IS_LOGICAL)
        check (&m, ALL, PTL_ARG_INVALID);
    m = usual;
    m.index = 255; /* the target may have so many */
    check (&m, ALL, PTL_OK);
    m.index = 256;
    check (&m, ALL, PTL_ARG_INVALID);
    m.index = PTL_PT_ANY;
    check (&m, ALL, PTL_ARG_INVALID);
}

static void check_operations (void)
{
    struct move m = usual;

    m.operation = PTL_SWAP;
    check (&m, 1u << ATOMIC_ON | 1u << FETCHING, PTL_ARG_INVALID);
    m.operation = PTL_MAX;
    check (&m, 1u << SWAPPING, PTL_ARG_INVALID);
    check (&m, 1u << ATOMIC_ON | 1u << FETCHING, PTL_OK);
    m.operation = (ptl_op_t)(PTL_MSWAP + 1);
    check (&m, ATOMICS, PTL_ARG_INVALID);
    m = usual;
    m.datatype = (ptl_datatype_t)(PTL_LONG_DOUBLE_COMPLEX + 1);
    check (&m, ATOMICS, PTL_ARG_INVALID);
    m.datatype = PTL_DOUBLE_COMPLEX;
    m.length = 24; /* one and a half */
    check (&m, ATOMICS, PTL_ARG_INVALID);
    m.datatype = PTL_DOUBLE;
    m.operation = PTL_BAND;
    check (&m, ATOMICS, PTL_ARG_INVALID);
    m = usual;
    m.operation = PTL_CSWAP;
    m.length = 16; /* two */
    check (&m, 1u << SWAPPING, PTL_ARG_INVALID);
    m.length = 8;
    check (&m, 1u << SWAPPING, PTL_OK);
    m.operand = NULL;
    check (&m, 1u << SWAPPING, PTL_ARG_INVALID);
    m.operation = PTL_SWAP; /* looks at none */
    check (&m, 1u << SWAPPING, PTL_OK);
}

/* ---- descriptors ---- */

static ptl_handle_md_t bind (ptl_md_t md)
{
    ptl_handle_md_t handle;

    CHECK (PtlMDBind (ni, &md, &handle) == PTL_OK);
    return handle;
}

static void bind_all (void)
{
    static ptl_iovec_t pieces[3];

    pieces[0] = (ptl_iovec_t){ memory, 5 };
    pieces[1] = (ptl_iovec_t){ NULL, 0 };
    pieces[2] = (ptl_iovec_t){ memory + 5, SIZE - 5 };
    full = bind ((ptl_md_t){ memory, SIZE, 0, eq, ct });
    bare = bind ((ptl_md_t){ .start = memory, .length = SIZE,
                             .eq_handle = PTL_EQ_NONE,
                             .ct_handle = PTL_CT_NONE });
    vector = bind ((ptl_md_t){ pieces, 3, PTL_IOVEC, eq, ct });
}

static void release_all (void)
{
    CHECK (PtlMDRelease (full) == PTL_OK);
    CHECK (PtlMDRelease (bare) == PTL_OK);
    CHECK (PtlMDRelease (vector) == PTL_OK);
}

/* A logical interface without a map knows nobody. */
static void check_no_map (void)
{
    ptl_process_t first = { .rank = 0 };

    usual = (struct move){ .md = full,
                           .get_md = full,
                           .length = 8,
                           .target = first,
                           .operation = PTL_SUM,
                           .datatype = PTL_INT64_T };
    check (&usual, ALL, PTL_ARG_INVALID);
}

int main (void)
{
    static const ptl_ni_limits_t limits = {
        .max_pt_index = 3,
        .max_msg_size = MESSAGE,
        .max_atomic_size = ATOMIC,
        .max_fetch_atomic_size = FETCH,
    };
    uint64_t operand = 0;

    CHECK (PtlInit () == PTL_OK);
    CHECK (PtlNIInit (PTL_IFACE_DEFAULT, NI_OPTIONS, PTL_PID_ANY, &limits,
                      NULL, &ni)
           == PTL_OK);
    CHECK (PtlEQAlloc (ni, 4096, &eq) == PTL_OK);
    CHECK (PtlCTAlloc (ni, &ct) == PTL_OK);
    bind_all ();
    if (IS_LOGICAL)
        check_no_map ();
    CHECK (call_interface (NI_OPTIONS) == ni);
    usual = (struct move){ .md = full,
                           .get_md = full,
                           .length = 8,
                           .operation = PTL_SUM,
                           .datatype = PTL_INT64_T,
                           .operand = &operand };
    CHECK (PtlGetId (ni, &usual.target) == PTL_OK);
    check (&usual, ALL, PTL_OK);
    check_bytes ();
    check_acks ();
    check_lengths ();
    check_targets ();
    check_operations ();
    release_all ();
    PtlFini ();
    return 0;
}
