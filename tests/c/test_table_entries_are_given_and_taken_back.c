/* PtlPTAlloc, PtlPTFree, PtlPTDisable, PtlPTEnable (spec 3.7): the lowest free entry, or
 * the one that is wished; PTL_PT_FULL, PTL_PT_IN_USE, PTL_PT_EQ_NEEDED, PTL_ARG_INVALID,
 * PTL_NO_INIT. PTL_PT_ALLOC_DISABLED begins turned off. What has entries is in use,
 * and so is the queue of what exists.
 * kinds: all */
#include "kinds.h"

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static ptl_pt_index_t got;

static int alloc (unsigned options, ptl_handle_eq_t eq, ptl_pt_index_t wanted)
{
    got = PTL_PT_ANY;
    return PtlPTAlloc (b->ni, options, eq, wanted, &got);
}

static void errors (ptl_handle_eq_t eq, ptl_handle_eq_t foreign)
{
    ptl_pt_index_t index;

    CHECK (alloc (1u << 5, eq, PTL_PT_ANY) == PTL_ARG_INVALID);
    CHECK (alloc (1u << 31, eq, PTL_PT_ANY) == PTL_ARG_INVALID);
    CHECK (alloc (PTL_PT_FLOWCTRL, PTL_EQ_NONE, PTL_PT_ANY)
           == PTL_PT_EQ_NEEDED);
    CHECK (alloc (0, foreign, PTL_PT_ANY) == PTL_ARG_INVALID);
    CHECK (alloc (0, b->ni, PTL_PT_ANY) == PTL_ARG_INVALID);
    CHECK (PtlPTAlloc (b->ni, 0, eq, 3, NULL) == PTL_ARG_INVALID);
    CHECK (PtlPTAlloc (eq, 0, eq, 3, &index) == PTL_ARG_INVALID);
    CHECK (alloc (0, eq, 64) == PTL_ARG_INVALID); /* the limit is 63 */
    CHECK (PtlPTFree (b->ni, 3) == PTL_ARG_INVALID);
    CHECK (PtlPTFree (b->ni, 64) == PTL_ARG_INVALID);
    CHECK (PtlPTFree (eq, 3) == PTL_ARG_INVALID);
    CHECK (PtlPTDisable (b->ni, 3) == PTL_ARG_INVALID);
    CHECK (PtlPTEnable (b->ni, 3) == PTL_ARG_INVALID);
    CHECK (PtlPTDisable (eq, 3) == PTL_ARG_INVALID);
    CHECK (PtlPTEnable (eq, 3) == PTL_ARG_INVALID);
}

static void all_of_them (ptl_handle_eq_t eq)
{
    CHECK (alloc (0, eq, 5) == PTL_OK && got == 5);
    CHECK (alloc (0, eq, 5) == PTL_PT_IN_USE);
    for (ptl_pt_index_t i = 0; i < 64; i++)
        if (i != 5)
            CHECK (alloc (0, PTL_EQ_NONE, PTL_PT_ANY) == PTL_OK && got == i);
    CHECK (alloc (0, eq, PTL_PT_ANY) == PTL_PT_FULL);
    CHECK (PtlPTFree (b->ni, 40) == PTL_OK && PtlPTFree (b->ni, 7) == PTL_OK);
    CHECK (alloc (0, eq, PTL_PT_ANY) == PTL_OK && got == 7);
    for (ptl_pt_index_t i = 0; i < 64; i++)
        CHECK (PtlPTFree (b->ni, i)
               == (i == 40 ? PTL_ARG_INVALID : PTL_OK));
}

static void turned_off (ptl_handle_eq_t eq)
{
    char byte = 0;
    entry_t entry = entry_of (&byte, 1, PTL_LE_OP_PUT);
    ptl_handle_me_t handle;
    ptl_handle_md_t md
        = bind_memory (a, &byte, 1, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);

    CHECK (alloc (PTL_PT_ALLOC_DISABLED | PTL_PT_ONLY_USE_ONCE
                      | PTL_PT_ONLY_TRUNCATE | PTL_PT_MATCH_UNORDERED,
                  eq, PTL_PT_ANY)
           == PTL_OK);
    handle = put_entry (b, got, &entry, PTL_PRIORITY_LIST, NULL);
    expect (eq, PTL_EVENT_LINK);
    CHECK (put_to (ends, 2, a, md, 1, b, got, 0, 0, 0).ni_fail
           == PTL_NI_PT_DISABLED);
    CHECK (is_empty (eq) && PtlPTEnable (b->ni, got) == PTL_OK);
    CHECK (put_to (ends, 2, a, md, 1, b, got, 0, 0, 0).ni_fail == PTL_NI_OK);
    expect (eq, PTL_EVENT_PUT);
    CHECK (PtlPTFree (b->ni, got) == PTL_PT_IN_USE);
    CHECK (entry_unlink (handle) == PTL_OK);
    CHECK (PtlPTFree (b->ni, got) == PTL_OK);
}

int main (void)
{
    static const ptl_ni_limits_t limits = { .max_pt_index = 63 };
    ptl_handle_eq_t eq, foreign;

    CHECK (PtlPTAlloc (1, 0, PTL_EQ_NONE, 0, &got) == PTL_NO_INIT);
    CHECK (PtlPTFree (1, 0) == PTL_NO_INIT);
    CHECK (PtlPTDisable (1, 0) == PTL_NO_INIT);
    CHECK (PtlPTEnable (1, 0) == PTL_NO_INIT);
    kinds_open (ends, 2, 16, &limits);
    CHECK (PtlEQAlloc (b->ni, 16, &eq) == PTL_OK);
    CHECK (PtlEQAlloc (a->ni, 16, &foreign) == PTL_OK);
    errors (eq, foreign);
    all_of_them (eq);
    turned_off (eq);
    CHECK (PtlEQFree (eq) == PTL_OK);
    kinds_close (ends, 2);
    return 0;
}
