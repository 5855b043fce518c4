/* Messages from and into memory in pieces (3.10.2, 3.11.1): put, get and atomic,
 * at offsets across the pieces; and 64 MB in one message, both ways.
 *
 * kinds: all
 */
#include "world.h"

#define PIECES 37
#define LARGE ((size_t)64 << 20)

struct pieces {
    ptl_iovec_t iovec[PIECES];
    unsigned char *memory;
    size_t length;
};

static ptl_handle_ni_t ni;
static ptl_process_t *ids;
static ptl_handle_ct_t done;
static ptl_size_t n_done;

/* Pieces of changing length, not beside each other, some of them empty. */
static void cut (struct pieces *pieces, size_t step)
{
    size_t at = 0;

    pieces->memory = calloc (PIECES, 64 * step);
    CHECK (pieces->memory);
    pieces->length = 0;
    for (size_t i = 0; i < PIECES; i++) {
        size_t length = i % 7 == 3 ? 0 : (i * step) % 61 * 8 + step;

        pieces->iovec[i].iov_base = pieces->memory + at;
        pieces->iovec[i].iov_len = length;
        pieces->length += length;
        at += length + i % 3 * 5;
        CHECK (at < PIECES * 64 * step);
    }
}

static void copy_out (const struct pieces *pieces, unsigned char *flat)
{
    for (size_t i = 0; i < PIECES; i++) {
        memcpy (flat, pieces->iovec[i].iov_base, pieces->iovec[i].iov_len);
        flat += pieces->iovec[i].iov_len;
    }
}

static void copy_in (const struct pieces *pieces, const unsigned char *flat)
{
    for (size_t i = 0; i < PIECES; i++) {
        memcpy (pieces->iovec[i].iov_base, flat, pieces->iovec[i].iov_len);
        flat += pieces->iovec[i].iov_len;
    }
}

static void use_pieces (int to, int from)
{
    struct pieces here, there;
    unsigned char *flat, *expected;
    ptl_handle_md_t md;
    ptl_pt_index_t pt;
    size_t most;

    cut (&here, 16);
    cut (&there, 24);
    most = here.length < there.length ? here.length : there.length;
    flat = malloc (here.length + there.length);
    expected = calloc (1, here.length + there.length);
    pt = expose (ni, 1, there.iovec, PIECES,
                 PTL_IOVEC | PTL_LE_OP_PUT | PTL_LE_OP_GET, PTL_CT_NONE);
    md = bind_md (ni, here.iovec, PIECES,
                  PTL_IOVEC | PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY,
                  PTL_EQ_NONE, done);
    fill (flat, here.length, (uint64_t)rank);
    copy_in (&here, flat);
    barrier ();
    OK (PtlPut (md, 11, most - 11, PTL_CT_ACK_REQ, ids[to], pt, 0, 5, NULL,
                0));
    wait_count (done, ++n_done);
    barrier ();
    copy_out (&there, flat);
    fill (expected, here.length, (uint64_t)from);
    CHECK (memcmp (flat + 5, expected + 11, most - 11) == 0);
    barrier (); /* all have looked */
    OK (PtlAtomic (md, 0, 800, PTL_CT_ACK_REQ, ids[to], pt, 0, 5, NULL, 0,
                   PTL_BXOR, PTL_UINT64_T));
    wait_count (done, ++n_done);
    barrier ();
    for (size_t i = 0; i < 800; i++)
        flat[5 + i] ^= expected[i];
    copy_out (&there, expected);
    CHECK (memcmp (flat, expected, there.length) == 0);
    OK (PtlGet (md, 3, most - 9, ids[rank], pt, 0, 9, NULL));
    wait_count (done, ++n_done);
    copy_out (&here, flat);
    CHECK (memcmp (flat + 3, expected + 9, most - 9) == 0);
    barrier ();
}

static void use_large (int to, int from)
{
    unsigned char *out = malloc (LARGE), *in = calloc (1, LARGE);
    ptl_handle_ct_t came;
    ptl_handle_md_t md;
    ptl_pt_index_t pt;

    CHECK (in && out);
    OK (PtlCTAlloc (ni, &came));
    pt = expose (ni, 2, in, LARGE,
                 PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_CT_COMM
                     | PTL_LE_EVENT_CT_BYTES,
                 came);
    md = bind_md (ni, out, LARGE,
                  PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE,
                  done);
    fill (out, LARGE, (uint64_t)rank + 100);
    barrier ();
    OK (PtlPut (md, 0, LARGE, PTL_CT_ACK_REQ, ids[to], pt, 0, 0, NULL, 0));
    wait_count (done, ++n_done);
    wait_count (came, LARGE);
    CHECK (is_filled (in, LARGE, (uint64_t)from + 100));
    barrier ();
    OK (PtlGet (md, 0, LARGE - 1, ids[from], pt, 0, 1, NULL));
    wait_count (done, ++n_done);
    barrier (); /* all have what was there */
    fill (in, LARGE, (uint64_t)(from + size - 1) % (uint64_t)size + 100);
    CHECK (memcmp (in + 1, out, LARGE - 1) == 0);
    barrier ();
    free (in);
    free (out);
}

int main (int argc, char **argv)
{
    int to, from;

    world_open ();
    to = (rank + 1) % size;
    from = (rank + size - 1) % size;
    ids = world_interface (NI_OPTIONS, NULL, NULL, &ni);
    OK (PtlCTAlloc (ni, &done));
    use_pieces (to, from);
    if (argc > 1 && strcmp (argv[1], "large") == 0)
        use_large (to, from);
    return world_close ();
}
