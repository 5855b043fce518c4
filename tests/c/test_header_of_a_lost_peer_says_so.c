/* PTL_NI_UNDELIVERABLE (spec 3.13.3): the initiator goes while its message lands in the
 * overflow list. PUT says UNDELIVERABLE, and so does PUT_OVERFLOW, for who had
 * taken the header before as for who takes it afterwards; counters count a
 * failure. Nothing is left that would keep the entries.
 * kinds: all */
#include "kinds.h"

#define LARGE (8u << 20)

static struct end ends[3], *b = &ends[2];

static bool has_begun (void *context)
{
    struct ptlx_counters counters;

    (void)context;
    CHECK (PtlxCounters (b->ni, &counters) == PTL_OK);
    return counters.bytes_in > 600 * 1024;
}

int main (void)
{
    uint8_t *source = calloc (1, LARGE), *slab = malloc (2 * LARGE);
    entry_t entry;
    ptl_handle_me_t over;
    ptl_handle_ct_t ct;
    ptl_handle_eq_t eq;
    ptl_pt_index_t index;

    CHECK (source && slab);
    kinds_open (ends, 3, 16, NULL);
    index = kinds_table (b, 0, 16, &eq);
    CHECK (PtlCTAlloc (b->ni, &ct) == PTL_OK);
    entry = entry_of (slab, 2 * LARGE,
                      PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE
                          | PTL_LE_EVENT_CT_COMM);
    entry.ct_handle = ct;
    over = put_entry (b, index, &entry, PTL_OVERFLOW_LIST, NULL);
    for (unsigned i = 0; i < 2; i++) {
        ptl_handle_md_t md = bind_memory (
            &ends[i], source, LARGE, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);

        CHECK (PtlPut (md, 0, LARGE, PTL_ACK_REQ, b->id, index, 0, i * LARGE,
                       NULL, i)
               == PTL_OK);
        if (i == 0)
            pump (ends, 3, has_begun, NULL);
    }
    entry = entry_of (NULL, 0,
                      PTL_LE_OP_PUT | PTL_LE_USE_ONCE
                          | PTL_LE_EVENT_CT_OVERFLOW
                          | PTL_LE_EVENT_UNLINK_DISABLE);
    entry.ct_handle = ct;
    put_entry (b, index, &entry, PTL_PRIORITY_LIST, NULL);
    CHECK (PtlxNIFini (ends[0].ni, 0) == PTL_OK); /* in the middle of it */
    ends[0].ni = PTL_INVALID_HANDLE;
    pump_until (&ends[1], 2, b, PTLX_EVENT_PEER_LOST, 1);
    pump_until (&ends[1], 2, &ends[1], PTL_EVENT_ACK, 1);
    put_entry (b, index, &entry, PTL_PRIORITY_LIST, NULL);
    for (int seen = 0; seen < 4; seen++) {
        ptl_event_t event = next_of (eq);

        CHECK (event.type == PTL_EVENT_PUT
               || event.type == PTL_EVENT_PUT_OVERFLOW);
        CHECK (event.ni_fail_type
               == (event.hdr_data == 0 ? PTL_NI_UNDELIVERABLE : PTL_NI_OK));
    }
    CHECK (is_empty (eq) && counts (ct, 2, 2));
    CHECK (entry_unlink (over) == PTL_OK);
    CHECK (PtlPTFree (b->ni, index) == PTL_OK);
    PtlFini ();
    free (ends[0].log);
    kinds_close (&ends[1], 2);
    free (source);
    free (slab);
    return 0;
}
