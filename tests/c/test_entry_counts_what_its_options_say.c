/* PTL_LE_EVENT_CT_COMM, PTL_LE_EVENT_CT_OVERFLOW, PTL_LE_EVENT_CT_BYTES (spec 3.11.1,
 * 3.12.1): an operation on an entry counts there under CT_COMM, in the overflow list
 * too; a header counts for the entry that takes it, under CT_OVERFLOW. Bytes
 * are those accepted. Events that are disabled still count.
 * kinds: all */
#include "kinds.h"

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static ptl_pt_index_t table;
static ptl_handle_md_t md;
static char memory[16];

static ptl_handle_me_t append (ptl_list_t list, unsigned options, size_t size,
                               ptl_handle_ct_t ct)
{
    entry_t entry = entry_of (memory, size, PTL_LE_OP_PUT | options);

    entry.ct_handle = ct;
    return put_entry (b, table, &entry, list, NULL);
}

static void put (size_t length)
{
    put_to (ends, 2, a, md, length, b, table, 0, 0, 0);
}

int main (void)
{
    unsigned both = PTL_LE_EVENT_CT_COMM | PTL_LE_EVENT_CT_OVERFLOW;
    ptl_handle_ct_t over, priority, bytes;
    ptl_handle_me_t handle;
    ptl_handle_eq_t eq;
    char source[16] = "";

    kinds_open (ends, 2, 64, NULL);
    table = kinds_table (b, 0, 64, &eq);
    md = bind_memory (a, source, 16, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    CHECK (PtlCTAlloc (b->ni, &over) == PTL_OK);
    CHECK (PtlCTAlloc (b->ni, &priority) == PTL_OK);
    CHECK (PtlCTAlloc (b->ni, &bytes) == PTL_OK);
    append (PTL_OVERFLOW_LIST, both, 16, over);
    put (3);
    put (4);
    put (5);
    CHECK (counts (over, 3, 0));
    append (PTL_PRIORITY_LIST, both | PTL_LE_USE_ONCE, 16, priority);
    CHECK (counts (over, 3, 0) && counts (priority, 1, 0));
    append (PTL_PRIORITY_LIST,
            PTL_LE_EVENT_CT_COMM | PTL_LE_EVENT_CT_BYTES | PTL_LE_USE_ONCE, 16,
            bytes);
    CHECK (counts (bytes, 0, 0)); /* an overflow event it does not count */
    handle = append (PTL_PRIORITY_LIST, both | PTL_LE_EVENT_CT_BYTES, 2,
                     bytes);
    CHECK (counts (bytes, 5, 0)); /* what the header says was accepted */
    put (7);
    CHECK (counts (bytes, 7, 0)); /* 2 of them */
    CHECK (entry_unlink (handle) == PTL_OK);
    handle = append (PTL_PRIORITY_LIST,
                     PTL_LE_EVENT_CT_COMM | PTL_LE_EVENT_COMM_DISABLE
                         | PTL_LE_EVENT_SUCCESS_DISABLE,
                     16, priority);
    put (1);
    CHECK (counts (priority, 2, 0) && counts (over, 3, 0));
    CHECK (entry_unlink (handle) == PTL_OK);
    handle = append (PTL_PRIORITY_LIST, 0, 16, priority);
    put (1);
    CHECK (counts (priority, 2, 0));
    CHECK (entry_unlink (handle) == PTL_OK);
    append (PTL_PRIORITY_LIST, both, 16, PTL_CT_NONE); /* nothing to count in */
    put (1);
    kinds_close (ends, 2);
    return 0;
}
