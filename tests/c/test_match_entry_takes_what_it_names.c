/* ptl_me_t (spec 3.12.1): an entry takes a message when its match bits agree but for
 * ignore_bits and match_id names the initiator: a rank or PTL_RANK_ANY on a
 * logical interface, a nid and a pid, each perhaps any, on a physical one. The
 * first entry in the list that matches is the one.
 * kinds: matching */
#include "kinds.h"

static struct end ends[3], *c = &ends[2];
static ptl_handle_md_t mds[2];
static ptl_pt_index_t table;
static ptl_handle_eq_t eq;
static char memory[64];

/* Which entry takes a put of end `from`? NULL: none. */
static void *taker_of (int from, uint64_t bits)
{
    struct ptlx_event ack = put_to (ends, 3, &ends[from], mds[from], 1, c,
                                    table, bits, 0, 0);
    ptl_event_t event;

    if (ack.ni_fail == PTL_NI_DROPPED) {
        CHECK (is_empty (eq));
        return NULL;
    }
    event = expect (eq, PTL_EVENT_PUT);
    CHECK (event.match_bits == bits && is_from (&event, &ends[from]));
    return event.user_ptr;
}

static ptl_handle_me_t append (ptl_process_t from, uint64_t bits,
                               uint64_t ignored, void *user_ptr)
{
    ptl_me_t me = entry_of (memory, sizeof (memory),
                            PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);

    me.match_id = from;
    me.match_bits = bits;
    me.ignore_bits = ignored;
    return put_entry (c, table, &me, PTL_PRIORITY_LIST, user_ptr);
}

int main (void)
{
    ptl_process_t any = { .phys = { PTL_NID_ANY, PTL_PID_ANY } }, half;
    ptl_handle_me_t handle;
    char x[8];

    if (IS_LOGICAL)
        any.rank = PTL_RANK_ANY;
    kinds_open (ends, 3, 32, NULL);
    table = kinds_table (c, 0, 16, &eq);
    for (int i = 0; i < 2; i++)
        mds[i] = bind_memory (&ends[i], x, 1, PTL_MD_EVENT_SEND_DISABLE,
                              PTL_CT_NONE);
    CHECK (taker_of (0, 0) == NULL);
    append (ends[1].id, 0xf0, 0x0f, &x[0]);
    append (any, 0xf1, 0, &x[1]);
    append (ends[0].id, 0, UINT64_MAX, &x[2]);
    CHECK (taker_of (0, 0xf1) == &x[1]);
    CHECK (taker_of (0, 0xf2) == &x[2]);
    CHECK (taker_of (1, 0xf1) == &x[0]);
    CHECK (taker_of (1, 0xff) == &x[0]);
    CHECK (taker_of (1, 0x1f1) == NULL);
    CHECK (taker_of (1, UINT64_C (1) << 63 | 0xf1) == NULL);
    if (IS_LOGICAL) {
        kinds_close (ends, 3);
        return 0;
    }
    half = ends[1].id;
    half.phys.nid = PTL_NID_ANY;
    handle = append (half, 0x300, 0, &x[3]);
    CHECK (taker_of (1, 0x300) == &x[3] && taker_of (0, 0x300) == &x[2]);
    CHECK (PtlMEUnlink (handle) == PTL_OK);
    half = ends[1].id;
    half.phys.pid = PTL_PID_ANY;
    handle = append (half, 0x300, 0, &x[4]);
    CHECK (taker_of (1, 0x300) == &x[4]);
    CHECK (PtlMEUnlink (handle) == PTL_OK);
    half.phys.nid ^= 1;
    append (half, 0x300, 0, &x[5]);
    CHECK (taker_of (1, 0x300) == NULL);
    kinds_close (ends, 3);
    return 0;
}
