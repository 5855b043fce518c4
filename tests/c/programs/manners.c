/* The ways to put: bundles (3.17), each kind of acknowledgement (3.15.1), and
 * descriptors that are UNORDERED, VOLATILE or count bytes (3.10).
 *
 * kinds: all
 */
#include "world.h"

#define N 100

static ptl_handle_ni_t ni;
static uint64_t in[N], out[N];

static void clear (int round)
{
    barrier ();
    for (uint64_t i = 0; i < N; i++) {
        in[i] = 0;
        out[i] = (uint64_t)(round * 1000 + rank * 100) + i;
    }
    barrier ();
}

static void check (int round, int from)
{
    barrier ();
    for (uint64_t i = 0; i < N; i++)
        CHECK (in[i] == (uint64_t)(round * 1000 + from * 100) + i);
}

/* Puts of one word each; the acks are counted, the last one read as an event. */
static void put_all (ptl_process_t to, unsigned int options,
                     ptl_ack_req_t ack, bool is_bundled)
{
    bool is_volatile = options & PTL_MD_VOLATILE;
    ptl_size_t wanted = options & PTL_MD_EVENT_CT_BYTES ? N * 8 : N;
    ptl_handle_eq_t eq;
    ptl_handle_ct_t ct;
    ptl_handle_md_t md;
    ptl_event_t event;
    uint64_t word[2];

    OK (PtlCTAlloc (ni, &ct));
    OK (PtlEQAlloc (ni, 2 * N, &eq));
    md = bind_md (ni, is_volatile ? word : out,
                  is_volatile ? sizeof (word) : sizeof (out), options, eq,
                  ct);
    if (is_bundled)
        OK (PtlStartBundle (ni));
    for (size_t i = 0; i < N; i++) {
        size_t at = is_volatile ? i % 2 * 8 : i * 8;

        word[i % 2] = out[i]; /* what it was is gone at once */
        OK (PtlPut (md, at, 8, ack, to, 2, 0, i * 8, NULL, 0));
        word[i % 2] = 0;
    }
    if (is_bundled)
        OK (PtlEndBundle (ni));
    wait_count (ct, wanted);
    if (!(options & PTL_MD_EVENT_SEND_DISABLE))
        for (int i = 0; i < N; i++) {
            OK (PtlEQWait (eq, &event));
            if (event.type == PTL_EVENT_ACK)
                i--;
            else
                CHECK (event.type == PTL_EVENT_SEND
                       && event.ni_fail_type == PTL_NI_OK);
        }
    else if (ack == PTL_ACK_REQ)
        for (int i = 0; i < N; i++) {
            OK (PtlEQWait (eq, &event));
            CHECK (event.type == PTL_EVENT_ACK);
            CHECK (event.mlength == 8 && event.ni_fail_type == PTL_NI_OK);
            if (!(options & PTL_MD_UNORDERED))
                CHECK (event.remote_offset == (ptl_size_t)i * 8);
        }
    else
        CHECK (PtlEQGet (eq, &event) == PTL_EQ_EMPTY);
    OK (PtlMDRelease (md));
    OK (PtlCTFree (ct));
    OK (PtlEQFree (eq));
}

int main (void)
{
    static const struct {
        unsigned int options;
        ptl_ack_req_t ack;
        bool is_bundled;
    } ways[] = {
        { PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_SEND_DISABLE, PTL_ACK_REQ,
          false },
        { PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_SEND_DISABLE, PTL_ACK_REQ,
          true },
        { PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_SEND_DISABLE, PTL_CT_ACK_REQ,
          true },
        { PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_SEND_DISABLE, PTL_OC_ACK_REQ,
          false },
        { PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_SEND_DISABLE | PTL_MD_UNORDERED,
          PTL_ACK_REQ, false },
        { PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_SEND_DISABLE | PTL_MD_VOLATILE,
          PTL_CT_ACK_REQ, false },
        { PTL_MD_EVENT_CT_ACK | PTL_MD_VOLATILE, PTL_OC_ACK_REQ, true },
        { PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_BYTES, PTL_NO_ACK_REQ,
          false },
        { PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_BYTES, PTL_CT_ACK_REQ,
          false },
    };
    ptl_process_t *ids;
    int from;

    world_open ();
    from = (rank + size - 1) % size;
    ids = world_interface (NI_OPTIONS, NULL, NULL, &ni);
    {
        ptl_handle_ct_t came;

        OK (PtlCTAlloc (ni, &came));
        expose (ni, 2, in, sizeof (in), PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM,
                came);
        for (int i = 0; i < (int)(sizeof (ways) / sizeof (ways[0])); i++) {
            clear (i);
            put_all (ids[(rank + 1) % size], ways[i].options, ways[i].ack,
                     ways[i].is_bundled);
            wait_count (came, (ptl_size_t)(i + 1) * N);
            check (i, from);
        }
    }
    return world_close ();
}
