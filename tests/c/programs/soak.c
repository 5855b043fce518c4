/* Mixed operations of random sizes to random ranks, several at once. Each rank has
 * a part of every other's memory and knows what it must hold; at the end it
 * reads it back, and its owner compares a checksum.
 *
 * kinds: all
 */
#include "world.h"

#define PART ((size_t)200 * 1024)
#define WORDS (PART / 8)
#define AT_ONCE 12
#define OPERATIONS 400

static ptl_handle_ni_t ni;
static ptl_process_t *ids;
static uint64_t *memory, **expected, *results;
static uint64_t *out[AT_ONCE], *in[AT_ONCE];
static ptl_handle_ct_t done;
static ptl_size_t n_done;
static ptl_handle_md_t md;
static uint64_t state;

static uint32_t below (uint32_t n)
{
    return next_random (&state) % n;
}

/* Mostly short, sometimes as long as the part. */
static size_t random_words (size_t most)
{
    size_t words = (size_t)1 << below (15);

    words += below ((uint32_t)words);
    return words < most ? words : most;
}

static uint64_t sum_of (const uint64_t *words)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < WORDS; i++)
        sum = sum * 31 + words[i];
    return sum;
}

static void drain (void)
{
    wait_count (done, n_done);
}

static size_t at_of (const void *address)
{
    return (uintptr_t)address;
}

static void atomic (int to, size_t slot, size_t at, ptl_size_t most)
{
    static const ptl_op_t operations[]
        = { PTL_SUM, PTL_BXOR, PTL_BOR, PTL_MAX, PTL_MIN, PTL_PROD };
    ptl_op_t operation = operations[below (6)];
    size_t words = random_words (WORDS - at);
    uint64_t *model = expected[to] + at;

    words = words < most / 8 ? words : most / 8;
    for (size_t i = 0; i < words; i++) {
        uint64_t in_word = out[slot][i], *word = &model[i];

        switch (operation) {
        case PTL_SUM: *word += in_word; break;
        case PTL_BXOR: *word ^= in_word; break;
        case PTL_BOR: *word |= in_word; break;
        case PTL_PROD: *word *= in_word; break;
        case PTL_MAX: *word = *word > in_word ? *word : in_word; break;
        default: *word = *word < in_word ? *word : in_word;
        }
    }
    OK (PtlAtomic (md, at_of (out[slot]), words * 8, PTL_CT_ACK_REQ, ids[to],
                   0, 0, (size_t)rank * PART + at * 8, NULL, 0, operation,
                   PTL_UINT64_T));
}

static void swap (int to, size_t slot, size_t at)
{
    uint64_t *word = &expected[to][at];
    uint64_t operand = below (2) ? *word : *word + 1;

    OK (PtlSwap (md, at_of (in[slot]), md, at_of (out[slot]), 8, ids[to], 0,
                 0, (size_t)rank * PART + at * 8, NULL, 0, &operand,
                 PTL_CSWAP, PTL_UINT64_T));
    n_done++;
    drain ();
    CHECK (in[slot][0] == *word);
    if (operand == *word)
        *word = out[slot][0];
}

static void get (int to, size_t slot, size_t at)
{
    size_t words = random_words (WORDS - at);

    drain (); /* a get may overtake the puts before it */
    OK (PtlGet (md, at_of (in[slot]), words * 8, ids[to], 0, 0,
                (size_t)rank * PART + at * 8, NULL));
    n_done++;
    drain ();
    CHECK (memcmp (in[slot], expected[to] + at, words * 8) == 0);
}

int main (int argc, char **argv)
{
    int n = argc > 1 ? atoi (argv[1]) : OPERATIONS;
    ptl_ni_limits_t limits;

    world_open ();
    alarm (0);
    state = (uint64_t)rank + 1;
    ids = world_interface (NI_OPTIONS, NULL, &limits, &ni);
    CHECK (limits.max_waw_ordered_size >= PART);
    memory = calloc ((size_t)size, PART);
    results = calloc ((size_t)size, 8);
    expected = calloc ((size_t)size, sizeof (*expected));
    CHECK (memory && results && expected);
    for (int i = 0; i < size; i++)
        CHECK (expected[i] = calloc (1, PART));
    for (int i = 0; i < AT_ONCE; i++)
        CHECK ((out[i] = calloc (1, PART)) && (in[i] = calloc (1, PART)));
    OK (PtlCTAlloc (ni, &done));
    md = bind_md (ni, NULL, PTL_SIZE_MAX,
                  PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE,
                  done);
    expose (ni, 0, memory, (size_t)size * PART,
            PTL_LE_OP_PUT | PTL_LE_OP_GET, PTL_CT_NONE);
    expose (ni, 1, results, (size_t)size * 8, PTL_LE_OP_PUT, PTL_CT_NONE);
    barrier ();
    for (int i = 0; i < n; i++) {
        size_t slot = (size_t)i % AT_ONCE, at = below (WORDS), words;
        int to = (int)below ((uint32_t)size);

        if (slot == 0) {
            drain (); /* their buffers are free */
            alarm (TOO_LONG_S);
        }
        words = random_words (WORDS - at);
        for (size_t k = 0; k < words; k++)
            out[slot][k] = (uint64_t)next_random (&state) << 17 | k;
        switch (below (6)) {
        case 0:
            get (to, slot, at);
            break;
        case 1:
            drain ();
            swap (to, slot, at);
            break;
        case 2:
            atomic (to, slot, at, limits.max_atomic_size);
            n_done++;
            break;
        default:
            memcpy (expected[to] + at, out[slot], words * 8);
            OK (PtlPut (md, at_of (out[slot]), words * 8, PTL_CT_ACK_REQ,
                        ids[to], 0, 0, (size_t)rank * PART + at * 8, NULL,
                        0));
            n_done++;
        }
    }
    for (int to = 0; to < size; to++) {
        drain ();
        out[0][0] = sum_of (expected[to]);
        OK (PtlPut (md, at_of (out[0]), 8, PTL_CT_ACK_REQ, ids[to], 1, 0,
                    8 * (size_t)rank, NULL, 0));
        n_done++;
        OK (PtlGet (md, at_of (in[0]), PART, ids[to], 0, 0,
                    (size_t)rank * PART, NULL));
        n_done++;
        drain ();
        CHECK (memcmp (in[0], expected[to], PART) == 0);
    }
    barrier ();
    for (int from = 0; from < size; from++)
        CHECK (results[from] == sum_of (memory + (size_t)from * WORDS));
    return world_close ();
}
