/* 3.6.1, ordering: a get sees the put before it and not the one behind it (up
 * to max_waw_ordered_size and max_war_ordered_size), of puts the last one
 * stays, atomic operations are done in turn; from one initiator to another
 * process and to itself. kinds: all */
#include "kinds.h"

#define TURNS 300
#define SPACE (300u * 1024)

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static uint8_t source[SPACE], target[SPACE], old[TURNS][1024];
static ptl_ni_limits_t limits;

static void turns (const struct end *to, ptl_pt_index_t place)
{
    uint64_t war = limits.max_war_ordered_size;
    ptl_handle_md_t md = bind_memory (
        a, source, SPACE, PTL_MD_VOLATILE | PTL_MD_EVENT_SUCCESS_DISABLE,
        PTL_CT_NONE);
    ptl_handle_md_t get = bind_memory (a, old, sizeof (old), 0, PTL_CT_NONE);

    CHECK (war >= 8 && war <= 1024 && limits.max_waw_ordered_size >= 64);
    a->n = 0;
    for (int i = 0; i < TURNS; i++) {
        memset (source, i, war);
        CHECK (PtlPut (md, 0, war, PTL_NO_ACK_REQ, to->id, place, 0, 0, NULL,
                       0)
               == PTL_OK);
        CHECK (PtlGet (get, (uint64_t)i * 1024, war, to->id, place, 0, 0, NULL)
               == PTL_OK);
    }
    pump_until (ends, 2, a, PTL_EVENT_REPLY, TURNS);
    for (int i = 0; i < TURNS; i++)
        for (uint64_t k = 0; k < war; k++)
            CHECK (old[i][k] == (uint8_t)i);
    a->n = 0;
    memset (target, 0, sizeof (target));
    memset (source, 1, 64);
    for (int i = 0; i < TURNS; i++)
        CHECK (PtlFetchAtomic (get, (uint64_t)i * 1024, md, 0, 64, to->id,
                               place, 0, 0, NULL, 0, PTL_SUM, PTL_UINT8_T)
               == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_REPLY, TURNS);
    for (int i = 0; i < TURNS; i++)
        CHECK (old[i][0] == (uint8_t)i && old[i][63] == (uint8_t)i);
    /* The largest that is ordered. */
    a->n = 0;
    memset (source, 0x5a, limits.max_waw_ordered_size);
    CHECK (PtlPut (md, 0, limits.max_waw_ordered_size, PTL_NO_ACK_REQ, to->id,
                   place, 0, 0, NULL, 0)
           == PTL_OK);
    CHECK (PtlGet (get, 0, limits.max_waw_ordered_size, to->id, place, 0, 0,
                   NULL)
           == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_REPLY, 1);
    CHECK (memcmp (old, source, limits.max_waw_ordered_size) == 0);
}

int main (void)
{
    struct ptlx_config config
        = { .listen_nid = LOOPBACK, .partition_key = test_key };
    entry_t entry = entry_of (target, sizeof (target),
                              PTL_LE_OP_PUT | PTL_LE_OP_GET);
    ptl_pt_index_t place;
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq;

    kinds_open (ends, 2, 2048, NULL);
    CHECK (PtlxNIInitKind (&config, NI_OPTIONS, NULL, &limits, &ni) == PTL_OK);
    CHECK (PtlxNIFini (ni, 0) == PTL_OK);
    place = kinds_table (b, 0, 4, &eq);
    put_entry (b, place, &entry, PTL_PRIORITY_LIST, NULL);
    turns (b, place);
    place = kinds_table (a, 0, 4, &eq);
    put_entry (a, place, &entry, PTL_PRIORITY_LIST, NULL);
    turns (a, place);
    kinds_close (ends, 2);
    return 0;
}
