/* A receiver with one small slab that is given back only after all senders
 * have been refused: every message arrives once, in order. */
#include "harness.h"

#define MESSAGES 400
#define LENGTH 50

static char slab[1000];
static ptl_pt_index_t table;

static void link_slab (const struct end *end)
{
    ptl_me_t me = {
        .start = slab,
        .length = sizeof (slab),
        .uid = PTL_UID_ANY,
        .min_free = LENGTH,
        .options = PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL
            | PTL_ME_UNEXPECTED_HDR_DISABLE | PTL_ME_EVENT_LINK_DISABLE,
        .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY },
        .ignore_bits = UINT64_MAX,
        .ct_handle = PTL_CT_NONE,
    };
    ptl_handle_me_t handle;

    CHECK (PtlMEAppend (end->ni, table, &me, PTL_OVERFLOW_LIST, NULL, &handle)
           == PTL_OK);
    CHECK (PtlPTEnable (end->ni, table) == PTL_OK);
}

int main (void)
{
    struct end ends[3], *b = &ends[2];
    int next[2] = { 0, 0 }, seen = 0, refusals = 0;
    char message[LENGTH] = { 0 };

    for (int i = 0; i < 3; i++)
        end_open (&ends[i], 64);
    table = open_table (b, PTL_PT_FLOWCTRL);
    CHECK (table == 0);
    link_slab (b);
    for (int i = 0; i < MESSAGES; i++)
        for (int s = 0; s < 2; s++) {
            message[0] = (char)s;
            memcpy (message + 1, &i, sizeof (i));
            CHECK (PtlxSend (ends[s].ni, b->id.phys.nid, b->id.phys.pid,
                             message, LENGTH)
                   == PTL_OK);
        }
    while (next[0] + next[1] < 2 * MESSAGES) {
        pump_until (ends, 3, b, PTL_EVENT_PT_DISABLED, refusals + 1);
        refusals = count_of (b, PTL_EVENT_PT_DISABLED);
        for (; seen < b->n; seen++) {
            const char *data = b->log[seen].start;
            int i;

            if (b->log[seen].type != PTL_EVENT_PUT)
                continue;
            memcpy (&i, data + 1, sizeof (i));
            CHECK (i == next[(int)data[0]]++);
        }
        link_slab (b);
        if (next[0] + next[1] + 20 >= 2 * MESSAGES)
            break;
    }
    CHECK (refusals > 10);
    for (int i = 0; i < 3; i++)
        end_close (&ends[i]);
    return 0;
}
