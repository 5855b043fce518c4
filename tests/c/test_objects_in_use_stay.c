/* PtlMDRelease, PtlLEUnlink, PtlMEUnlink: PTL_IN_USE, and PtlPTFree: PTL_PT_IN_USE,
 * as long as something needs the object: an operation that waits for its trigger,
 * an entry, a header. It is as it was, and goes once nothing does. A trigger
 * may go: what waits for it goes with it.
 * kinds: all */
#include "calls.h"

static ptl_handle_ni_t ni;
static ptl_process_t self;
static uint64_t memory;

static void check_descriptor (void)
{
    ptl_md_t md = { .start = &memory, .length = 8,
                    .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE };
    ptl_handle_ct_t ct, trigger;
    ptl_handle_eq_t eq;
    ptl_handle_md_t handle;

    CHECK (PtlEQAlloc (ni, 4, &eq) == PTL_OK);
    CHECK (PtlCTAlloc (ni, &ct) == PTL_OK);
    CHECK (PtlCTAlloc (ni, &trigger) == PTL_OK);
    md.eq_handle = eq;
    md.ct_handle = ct;
    CHECK (PtlMDBind (ni, &md, &handle) == PTL_OK);
    for (int round = 0; round < 2; round++) {
        CHECK (PtlTriggeredPut (handle, 0, 8, PTL_CT_ACK_REQ, self, 0, 0, 0,
                                NULL, 0, trigger, 5)
               == PTL_OK);
        CHECK (PtlTriggeredGet (handle, 0, 8, self, 0, 0, 0, NULL, trigger, 5)
               == PTL_OK);
        CHECK (PtlMDRelease (handle) == PTL_IN_USE);
        if (round == 0)
            CHECK (PtlCTCancelTriggered (trigger) == PTL_OK);
        else
            CHECK (PtlCTFree (trigger) == PTL_OK);
    }
    CHECK (PtlMDRelease (handle) == PTL_OK);
    CHECK (PtlEQFree (eq) == PTL_OK && PtlCTFree (ct) == PTL_OK);
}

static void check_entry (void)
{
    entry_t entry = entry_of (&memory, 8, PTL_LE_OP_PUT);
    entry_t once = entry_of (&memory, 8, PTL_LE_OP_PUT | PTL_LE_USE_ONCE);
    ptl_md_t md = { .start = &memory, .length = 8,
                    .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE };
    ptl_handle_ct_t ct, trigger;
    ptl_handle_eq_t eq;
    ptl_handle_any_t handle, over, source;
    ptl_pt_index_t index;

    CHECK (PtlEQAlloc (ni, 4, &eq) == PTL_OK);
    CHECK (PtlCTAlloc (ni, &ct) == PTL_OK);
    CHECK (PtlCTAlloc (ni, &trigger) == PTL_OK);
    CHECK (PtlMDBind (ni, &md, &source) == PTL_OK);
    CHECK (PtlPTAlloc (ni, 0, eq, PTL_PT_ANY, &index) == PTL_OK);
    entry.ct_handle = ct;
    CHECK (entry_append_triggered (ni, index, &entry, PTL_PRIORITY_LIST, NULL,
                                   &handle, trigger, 5)
           == PTL_OK);
    CHECK (PtlPTFree (ni, index) == PTL_PT_IN_USE);
    CHECK (PtlCTFree (trigger) == PTL_OK); /* so it will never be linked */
    CHECK (entry_unlink (handle) == PTL_ARG_INVALID);
    CHECK (entry_append (ni, index, &entry, PTL_OVERFLOW_LIST, NULL, &over)
           == PTL_OK);
    CHECK (PtlPut (source, 0, 8, PTL_NO_ACK_REQ, self, index, 0, 0, NULL, 0)
           == PTL_OK);
    CHECK (entry_unlink (over) == PTL_IN_USE); /* a header */
    CHECK (PtlPTFree (ni, index) == PTL_PT_IN_USE);
    CHECK (entry_search (ni, index, &once, PTL_SEARCH_DELETE, NULL)
           == PTL_OK);
    CHECK (entry_unlink (over) == PTL_OK);
    CHECK (PtlPTFree (ni, index) == PTL_OK);
    CHECK (PtlCTFree (ct) == PTL_OK && PtlEQFree (eq) == PTL_OK);
    CHECK (PtlMDRelease (source) == PTL_OK);
}

int main (void)
{
    CHECK (PtlInit () == PTL_OK);
    ni = call_interface (NI_OPTIONS);
    CHECK (PtlGetId (ni, &self) == PTL_OK);
    check_descriptor ();
    check_entry ();
    CHECK (PtlNIFini (ni) == PTL_OK);
    PtlFini ();
    return 0;
}
