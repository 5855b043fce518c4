/* Thousands of operations of every sort with random lengths, offsets, vectors
 * and types, from one end to another and to itself: the target's memory and
 * what was fetched are those of a model that does the same in turn.
 * kinds: all */
#include "kinds.h"
#include "ptl_atomic.h"
#include "ptl_wire.h"

#define SPACE (700u * 1024)
#define ROUNDS 60
#define AT_ONCE 40
#define SMALL 3000
#define PIECES 200

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static uint8_t source[SPACE], fetched[SPACE];
static uint8_t target[2][SPACE], model[2][SPACE], expected[SPACE];
static uint64_t seed = 1;
static bool is_known[SPACE]; /* of `fetched`: whether it is expected */

static uint64_t pick (uint64_t below)
{
    seed = seed * UINT64_C (6364136223846793005) + 1442695040888963407u;
    return (seed >> 33) % below;
}

/* The same memory, in pieces of random length, empty ones as well. */
static size_t cut (ptl_iovec_t *pieces, uint8_t *memory)
{
    uint64_t left = SPACE, length;
    size_t n = 0;

    while (left > 0) {
        length = n == PIECES - 1 ? left : pick (SPACE / PIECES * 2);
        length = length < left ? length : left;
        pieces[n++] = (ptl_iovec_t){ memory, length };
        memory += length;
        left -= length;
    }
    return n;
}

struct plan {
    uint64_t from, at, into; /* offsets: source, target, fetched */
    uint64_t length;
    unsigned operation, type;
};

static uint64_t random_length (uint64_t used)
{
    uint64_t most = pick (8) == 0 ? SPACE : SMALL;
    uint64_t length = pick (most + 1);

    return length < SPACE - used ? length : SPACE - used;
}

static void keep (const struct plan *p, const uint8_t *values)
{
    memcpy (expected + p->into, values, p->length);
    memset (is_known + p->into, true, p->length);
}

static const void *operand_of (const struct plan *p, const uint8_t *values)
{
    return pick (2) ? source + p->at : values; /* equal, or hardly */
}

static bool plan_atomic (struct plan *p, enum ptl_atomic_call call)
{
    size_t size;

    do {
        p->operation = (unsigned)pick (PTL_MSWAP + 1);
        p->type = (unsigned)pick (PTL_LONG_DOUBLE); /* no padding */
    } while (!ptl_atomic_allows (call, p->operation, p->type));
    size = ptl_atomic_size (p->type);
    if (ptl_atomic_needs_operand (p->operation))
        p->length = size < p->length ? size : 0;
    else
        p->length -= p->length % size;
    if (p->length > 65536)
        p->length = 65536 / 32 * 32 / size * size;
    return ptl_atomic_fits (p->operation, p->type, p->length);
}

/* Begin a random operation, and do it in the model; which answer it gives. */
static uint32_t begin (int who, const ptl_handle_md_t *md,
                       const ptl_handle_md_t *get, ptl_pt_index_t place,
                       uint64_t *into)
{
    struct end *to = who ? b : a;
    ptl_handle_md_t put_md = md[pick (2)], get_md = get[pick (2)];
    struct plan p = { .at = pick (SPACE), .from = pick (SPACE),
                      .into = *into };
    uint64_t used = p.at > p.from ? p.at : p.from;
    uint8_t *values = model[who] + p.at, was[PTL_ATOMIC_ELEMENT_MAX];
    const void *operand = NULL;
    unsigned sort = (unsigned)pick (5);

    p.length = random_length (used > p.into ? used : p.into);
    switch (sort) {
    case 0:
        if (p.length > PTL_PAYLOAD_MAX) /* nor is that of fragments */
            p.length = PTL_PAYLOAD_MAX;
        CHECK (PtlPut (put_md, p.from, p.length, PTL_ACK_REQ, to->id, place, 0,
                       p.at, NULL, 0)
               == PTL_OK);
        memcpy (values, source + p.from, p.length);
        return PTL_EVENT_ACK;
    case 1:
        if (p.length > 1024) /* its order is not promised */
            p.length = pick (1025);
        if (p.length > SPACE - p.into || p.length > SPACE - p.at)
            p.length = 0;
        CHECK (PtlGet (get_md, p.into, p.length, to->id, place, 0, p.at, NULL)
               == PTL_OK);
        keep (&p, values);
        *into += p.length;
        return PTL_EVENT_REPLY;
    case 2:
        if (!plan_atomic (&p, PTL_CALL_ATOMIC))
            return 0;
        CHECK (PtlAtomic (put_md, p.from, p.length, PTL_ACK_REQ, to->id, place,
                          0, p.at, NULL, 0, (ptl_op_t)p.operation,
                          (ptl_datatype_t)p.type)
               == PTL_OK);
        ptl_atomic_apply (p.operation, p.type, values, NULL, source + p.from,
                          p.length);
        return PTL_EVENT_ACK;
    case 3:
        if (!plan_atomic (&p, PTL_CALL_FETCH_ATOMIC))
            return 0;
        CHECK (PtlFetchAtomic (get_md, p.into, put_md, p.from, p.length,
                               to->id, place, 0, p.at, NULL, 0,
                               (ptl_op_t)p.operation, (ptl_datatype_t)p.type)
               == PTL_OK);
        break;
    default:
        if (!plan_atomic (&p, PTL_CALL_SWAP))
            return 0;
        if (ptl_atomic_needs_operand (p.operation)) {
            memcpy (was, operand_of (&p, values), ptl_atomic_size (p.type));
            operand = was;
        }
        CHECK (PtlSwap (get_md, p.into, put_md, p.from, p.length, to->id,
                        place, 0, p.at, NULL, 0, operand,
                        (ptl_op_t)p.operation, (ptl_datatype_t)p.type)
               == PTL_OK);
    }
    keep (&p, values);
    *into += p.length;
    ptl_atomic_apply (p.operation, p.type, values, operand, source + p.from,
                      p.length);
    return PTL_EVENT_REPLY;
}

/* All of it, in fragments: there and back. */
static void large (int who, const ptl_handle_md_t *md,
                   const ptl_handle_md_t *get, ptl_pt_index_t place)
{
    struct end *to = who ? b : a;
    uint64_t length = SPACE - pick (SPACE / 2);

    a->n = 0;
    CHECK (PtlPut (md[pick (2)], SPACE - length, length, PTL_ACK_REQ, to->id,
                   place, 0, 0, NULL, 0)
           == PTL_OK);
    memcpy (model[who], source + SPACE - length, length);
    pump_until (ends, 2, a, PTL_EVENT_ACK, 1);
    CHECK (PtlGet (get[pick (2)], 0, SPACE, to->id, place, 0, 0, NULL)
           == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_REPLY, 1);
    CHECK (memcmp (fetched, model[who], SPACE) == 0);
}

static void round_of (int who, const ptl_handle_md_t *md,
                      const ptl_handle_md_t *get, ptl_pt_index_t place)
{
    int acks = 0, replies = 0;
    uint64_t into = 0;

    large (who, md, get, place);
    a->n = 0;
    memset (is_known, 0, sizeof (is_known));
    for (int i = 0; i < AT_ONCE; i++)
        switch (begin (who, md, get, place, &into)) {
        case PTL_EVENT_ACK:
            acks++;
            break;
        case PTL_EVENT_REPLY:
            replies++;
        }
    pump_until (ends, 2, a, PTL_EVENT_ACK, acks);
    pump_until (ends, 2, a, PTL_EVENT_REPLY, replies);
    for (int i = 0; i < a->n; i++)
        CHECK (a->log[i].ni_fail == PTL_NI_OK);
    CHECK (memcmp (target[who], model[who], SPACE) == 0);
    for (uint64_t i = 0; i < into; i++)
        CHECK (!is_known[i] || fetched[i] == expected[i]);
}

int main (void)
{
    ptl_iovec_t pieces[3][PIECES];
    ptl_handle_md_t md[2], get[2];
    ptl_pt_index_t place[2];
    entry_t entry = entry_of (target[0], SPACE, PTL_LE_OP_PUT | PTL_LE_OP_GET);
    ptl_handle_eq_t eq;

    seed += KIND;
    for (unsigned i = 0; i < SPACE; i++)
        source[i] = (uint8_t)pick (256);
    kinds_open (ends, 2, 512, NULL);
    place[0] = kinds_table (a, 0, 4, &eq);
    put_entry (a, place[0], &entry, PTL_PRIORITY_LIST, NULL);
    place[1] = kinds_table (b, 0, 4, &eq);
    entry.start = pieces[0];
    entry.length = cut (pieces[0], target[1]);
    entry.options |= PTL_IOVEC;
    put_entry (b, place[1], &entry, PTL_PRIORITY_LIST, NULL);
    md[0] = bind_memory (a, source, SPACE, PTL_MD_EVENT_SEND_DISABLE,
                         PTL_CT_NONE);
    md[1] = bind_memory (a, pieces[1], cut (pieces[1], source),
                         PTL_MD_EVENT_SEND_DISABLE | PTL_IOVEC, PTL_CT_NONE);
    get[0] = bind_memory (a, fetched, SPACE, 0, PTL_CT_NONE);
    get[1] = bind_memory (a, pieces[2], cut (pieces[2], fetched), PTL_IOVEC,
                          PTL_CT_NONE);
    for (int i = 0; i < ROUNDS; i++)
        round_of (i % 4 != 0, md, get, place[i % 4 != 0]);
    kinds_close (ends, 2);
    return 0;
}
