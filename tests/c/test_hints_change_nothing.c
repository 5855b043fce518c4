/* PTL_PT_ONLY_USE_ONCE, PTL_PT_ONLY_TRUNCATE (spec 3.7.1) are hints that MPI
 * libraries do not keep to themselves: entries that persist, or do not truncate,
 * can be appended and work. PTL_PT_MATCH_UNORDERED, PTL_MD_UNORDERED and
 * PTL_MD_UNRELIABLE permit what does not happen; PTL_ME_MAY_ALIGN leaves no gap.
 * kinds: matching */
#include "kinds.h"

#define PUTS 50

static char ours[16], theirs[PUTS * 3];

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    entry_t entry = entry_of (theirs, sizeof (theirs),
                              PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE
                                  | PTL_ME_MANAGE_LOCAL | PTL_ME_NO_TRUNCATE
                                  | PTL_ME_MAY_ALIGN | PTL_ME_IS_ACCESSIBLE);
    ptl_handle_eq_t eq;
    ptl_pt_index_t table;
    ptl_handle_md_t md;

    kinds_open (ends, 2, 128, NULL);
    table = kinds_table (b,
                         PTL_PT_ONLY_USE_ONCE | PTL_PT_ONLY_TRUNCATE
                             | PTL_PT_MATCH_UNORDERED,
                         128, &eq);
    put_entry (b, table, &entry, PTL_PRIORITY_LIST, NULL);
    md = bind_memory (a, ours, sizeof (ours),
                      PTL_MD_UNORDERED | PTL_MD_UNRELIABLE
                          | PTL_MD_EVENT_SEND_DISABLE,
                      PTL_CT_NONE);
    for (uint64_t i = 0; i < PUTS; i++)
        CHECK (PtlPut (md, 0, 3, PTL_ACK_REQ, b->id, table, 0, 0, NULL, i)
               == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_ACK, PUTS);
    for (uint64_t i = 0; i < PUTS; i++) {
        ptl_event_t event = expect (eq, PTL_EVENT_PUT);

        CHECK (event.hdr_data == i && event.mlength == 3);
        CHECK (event.start == theirs + 3 * i);
    }
    CHECK (put_to (ends, 2, a, md, 1, b, table, 0, 0, 0).ni_fail
           == PTL_NI_DROPPED); /* it is full, and does not truncate */
    CHECK (is_empty (eq));
    kinds_close (ends, 2);
    return 0;
}
