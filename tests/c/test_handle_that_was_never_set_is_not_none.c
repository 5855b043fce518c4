/* PTL_INVALID_HANDLE, PTL_EQ_NONE, PTL_CT_NONE (spec 3.2.1, 3.13.2, 3.14.2): who wants
 * no queue and no counter says so. A handle that is invalid, that was never set
 * in memory of zeros, or that is "none" of the other kind is PTL_ARG_INVALID
 * wherever an object is made with it.
 * kinds: all */
#include "calls.h"

static ptl_handle_ni_t ni;
static ptl_pt_index_t index_of_table;
static uint64_t memory;

static int bind (ptl_handle_eq_t eq, ptl_handle_ct_t ct)
{
    ptl_md_t md = { .start = &memory, .length = 8, .eq_handle = eq,
                    .ct_handle = ct };
    ptl_handle_md_t handle;
    int rc = PtlMDBind (ni, &md, &handle);

    if (rc == PTL_OK)
        CHECK (PtlMDRelease (handle) == PTL_OK);
    return rc;
}

static int table (ptl_handle_eq_t eq)
{
    ptl_pt_index_t index;
    int rc = PtlPTAlloc (ni, 0, eq, PTL_PT_ANY, &index);

    if (rc == PTL_OK)
        CHECK (PtlPTFree (ni, index) == PTL_OK);
    return rc;
}

static int append (ptl_handle_ct_t ct)
{
    entry_t entry = entry_of (&memory, 8, PTL_LE_OP_PUT);
    ptl_handle_me_t handle;
    int rc;

    entry.ct_handle = ct;
    rc = entry_append (ni, index_of_table, &entry, PTL_PRIORITY_LIST, NULL,
                       &handle);
    if (rc == PTL_OK)
        CHECK (entry_unlink (handle) == PTL_OK);
    return rc;
}

static int search (ptl_handle_ct_t ct)
{
    entry_t entry = entry_of (&memory, 8, PTL_LE_OP_PUT);

    entry.ct_handle = ct;
    return entry_search (ni, index_of_table, &entry, PTL_SEARCH_ONLY, NULL);
}

int main (void)
{
    static ptl_md_t md; /* of zeros: its queue was never set */

    CHECK (PtlInit () == PTL_OK);
    ni = call_interface (NI_OPTIONS);
    CHECK (PtlPTAlloc (ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &index_of_table)
           == PTL_OK);
    CHECK (bind (PTL_EQ_NONE, PTL_CT_NONE) == PTL_OK);
    CHECK (table (PTL_EQ_NONE) == PTL_OK);
    CHECK (append (PTL_CT_NONE) == PTL_OK);
    CHECK (search (PTL_CT_NONE) == PTL_OK);
    CHECK (bind (md.eq_handle, PTL_CT_NONE) == PTL_ARG_INVALID);
    CHECK (bind (PTL_EQ_NONE, md.ct_handle) == PTL_ARG_INVALID);
    CHECK (bind (PTL_CT_NONE, PTL_CT_NONE) == PTL_ARG_INVALID);
    CHECK (bind (PTL_EQ_NONE, PTL_EQ_NONE) == PTL_ARG_INVALID);
    CHECK (table (PTL_INVALID_HANDLE) == PTL_ARG_INVALID);
    CHECK (table (PTL_CT_NONE) == PTL_ARG_INVALID);
    CHECK (append (PTL_INVALID_HANDLE) == PTL_ARG_INVALID);
    CHECK (append (PTL_EQ_NONE) == PTL_ARG_INVALID);
    CHECK (search (PTL_INVALID_HANDLE) == PTL_ARG_INVALID);
    CHECK (search (PTL_EQ_NONE) == PTL_ARG_INVALID);
    CHECK (PtlNIFini (ni) == PTL_OK);
    PtlFini ();
    return 0;
}
