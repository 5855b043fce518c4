/* PtlAtomic, PtlFetchAtomic, PtlSwap (3.15.4 to 3.15.6): the target's elements
 * change, a fetching one brings what was there before; events ATOMIC and
 * FETCH_ATOMIC at the target, SEND and ACK or SEND and REPLY at the initiator;
 * between two processes, to oneself, and on I/O vectors that cut elements. */
#include "harness.h"

#define MANY 8192 /* elements: the largest atomic operation */

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static int64_t data[MANY], target[MANY], old[MANY];

static void pair_of_events (const struct end *at, int n, uint32_t type,
                            uint32_t answer, unsigned operation)
{
    const struct ptlx_event *event;

    pump_until (ends, 2, a, answer, n);
    pump_until (ends, 2, at, type, n);
    event = event_of (at, type, n - 1);
    CHECK (event->ni_fail == PTL_NI_OK && event->hdr_data == 3);
    CHECK (event->operation == operation && event->datatype == PTL_INT64_T);
    CHECK (event_of (a, answer, n - 1)->ni_fail == PTL_NI_OK);
}

static void compute (struct end *at, ptl_handle_md_t put, ptl_handle_md_t get,
                     ptl_pt_index_t index)
{
    static const uint64_t counts[] = { 1, 2, 128, 129, MANY };
    int64_t operand;
    uint64_t bytes;
    int n = count_of (a, PTL_EVENT_ACK), f = count_of (a, PTL_EVENT_REPLY);

    for (int i = 0; i < MANY; i++)
        data[i] = i + 1;
    for (int k = 0; k < 5; k++) {
        bytes = counts[k] * 8;
        for (int i = 0; i < MANY; i++)
            target[i] = 10 * i;
        CHECK (PtlAtomic (put, 0, bytes, PTL_ACK_REQ, at->id, index, 0, 0,
                          NULL, 3, PTL_SUM, PTL_INT64_T)
               == PTL_OK);
        pair_of_events (at, ++n, PTL_EVENT_ATOMIC, PTL_EVENT_ACK, PTL_SUM);
        for (uint64_t i = 0; i < MANY; i++)
            CHECK (target[i]
                   == (int64_t)(10 * i + (i < counts[k] ? i + 1 : 0)));
        memset (old, 0, sizeof (old));
        CHECK (PtlFetchAtomic (get, 0, put, 0, bytes, at->id, index, 0, 0,
                               NULL, 3, PTL_MIN, PTL_INT64_T)
               == PTL_OK);
        pair_of_events (at, ++f, PTL_EVENT_FETCH_ATOMIC, PTL_EVENT_REPLY,
                        PTL_MIN);
        for (uint64_t i = 0; i < counts[k]; i++) {
            CHECK (old[i] == (int64_t)(11 * i + 1));
            CHECK (target[i] == (int64_t)(i + 1));
        }
        CHECK (counts[k] == MANY || old[counts[k]] == 0);
        CHECK (PtlSwap (get, 0, put, 8, bytes - 8, at->id, index, 0, 0, NULL,
                        3, NULL, PTL_SWAP, PTL_INT64_T)
               == PTL_OK);
        pair_of_events (at, ++f, PTL_EVENT_FETCH_ATOMIC, PTL_EVENT_REPLY,
                        PTL_SWAP);
        for (uint64_t i = 0; i + 1 < counts[k]; i++)
            CHECK (old[i] == (int64_t)(i + 1)
                   && target[i] == (int64_t)(i + 2));
    }
    target[1] = 77;
    operand = 76;
    CHECK (PtlSwap (get, 0, put, 0, 8, at->id, index, 0, 8, NULL, 3, &operand,
                    PTL_CSWAP, PTL_INT64_T)
           == PTL_OK);
    operand = 0; /* it has been taken */
    pair_of_events (at, ++f, PTL_EVENT_FETCH_ATOMIC, PTL_EVENT_REPLY,
                    PTL_CSWAP);
    CHECK (target[1] == 77 && old[0] == 77);
    operand = 77;
    CHECK (PtlSwap (get, 0, put, 0, 8, at->id, index, 0, 8, NULL, 3, &operand,
                    PTL_CSWAP, PTL_INT64_T)
           == PTL_OK);
    pair_of_events (at, ++f, PTL_EVENT_FETCH_ATOMIC, PTL_EVENT_REPLY,
                    PTL_CSWAP);
    CHECK (target[1] == 1 && old[0] == 77);
    target[0] = 0xff00;
    data[0] = 0x1234;
    operand = 0x0ff0;
    CHECK (PtlSwap (get, 0, put, 0, 8, at->id, index, 0, 0, NULL, 3, &operand,
                    PTL_MSWAP, PTL_INT64_T)
           == PTL_OK);
    pair_of_events (at, ++f, PTL_EVENT_FETCH_ATOMIC, PTL_EVENT_REPLY,
                    PTL_MSWAP);
    CHECK (target[0] == 0xf230 && old[0] == 0xff00);
    CHECK (event_of (a, PTL_EVENT_REPLY, f - 1)->mlength == 8);
    CHECK (PtlAtomicSync () == PTL_OK);
}

static ptl_iovec_t *cut (void *memory, size_t bytes, size_t piece, size_t *n)
{
    ptl_iovec_t *pieces = calloc (bytes / piece + 2, sizeof (*pieces));

    for (*n = 0; bytes > 0; (*n)++) {
        size_t length = bytes < piece ? bytes : piece;

        pieces[*n] = (ptl_iovec_t){ memory, length };
        memory = (char *)memory + length;
        bytes -= length;
    }
    return pieces;
}

static void open_both (const struct end *at, ptl_pt_index_t index,
                       void *start, size_t length, unsigned options)
{
    ptl_handle_me_t me = open_entry (at, index, start, length,
                                     PTL_ME_OP_GET | options, PTL_CT_NONE);
    (void)me;
}

int main (void)
{
    ptl_iovec_t *target_pieces, *data_pieces, *old_pieces;
    ptl_handle_md_t put, get, put_cut, get_cut;
    ptl_pt_index_t plain, vector, own;
    size_t n;

    end_open (a, 1024);
    end_open (b, 1024);
    plain = open_table (b, 0);
    vector = open_table (b, 0);
    own = open_table (a, 0);
    open_both (b, plain, target, sizeof (target), 0);
    open_both (a, own, target, sizeof (target), 0);
    target_pieces = cut (target, sizeof (target), 1001, &n);
    open_both (b, vector, target_pieces, n, PTL_IOVEC);
    put = bind_memory (a, data, sizeof (data), 0, PTL_CT_NONE);
    get = bind_memory (a, old, sizeof (old), 0, PTL_CT_NONE);
    data_pieces = cut (data, sizeof (data), 77, &n);
    put_cut = bind_memory (a, data_pieces, n, PTL_IOVEC, PTL_CT_NONE);
    old_pieces = cut (old, sizeof (old), 135, &n);
    get_cut = bind_memory (a, old_pieces, n, PTL_IOVEC, PTL_CT_NONE);
    compute (b, put, get, plain);
    compute (b, put_cut, get_cut, vector);
    b->n = 0;
    a->n = 0;
    compute (a, put, get, own);
    a->n = 0;
    compute (a, put_cut, get_cut, own);
    end_close (a);
    end_close (b);
    free (target_pieces);
    free (data_pieces);
    free (old_pieces);
    return 0;
}
