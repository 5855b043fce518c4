/* PTL_NO_SPACE (spec 3.11.2, 3.12.2): whichever allocation fails, an append, a search or a
 * triggered call says so and has done nothing, a message without a header is
 * dropped, and everything can be taken back without a leak.
 * kinds: all
 * link: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
 */
#include <stdlib.h>

void *__real_malloc (size_t size);
void *__real_calloc (size_t n, size_t size);
void *__real_realloc (void *old, size_t size);
void *__wrap_malloc (size_t size);
void *__wrap_calloc (size_t n, size_t size);
void *__wrap_realloc (void *old, size_t size);

static int left = -1; /* allocations until one fails; below 0: none does */

static int fails (void)
{
    return left >= 0 && left-- == 0;
}

void *__wrap_malloc (size_t size)
{
    return fails () ? NULL : __real_malloc (size);
}

void *__wrap_calloc (size_t n, size_t size)
{
    return fails () ? NULL : __real_calloc (n, size);
}

void *__wrap_realloc (void *old, size_t size)
{
    return fails () ? NULL : __real_realloc (old, size);
}

#include "kinds.h"

#define ENTRIES 4

static struct end end;
static ptl_pt_index_t table;
static ptl_handle_me_t handles[ENTRIES];

static bool went_well (int rc)
{
    CHECK (rc == PTL_OK || rc == PTL_NO_SPACE);
    return rc == PTL_OK;
}

/* Everything once; what was appended is in `handles`. */
static void act (ptl_handle_md_t md, ptl_handle_ct_t ct)
{
    static char memory[8], more[8];
    ptl_iovec_t pieces[2] = { { memory, 8 }, { more, 8 } };
    entry_t vector = entry_of (pieces, 2, PTL_LE_OP_PUT | PTL_IOVEC);
    entry_t once = entry_of (NULL, 0, PTL_LE_OP_PUT | PTL_LE_USE_ONCE);

    if (!went_well (entry_append (end.ni, table, &vector, PTL_OVERFLOW_LIST,
                                  NULL, &handles[0])))
        handles[0] = PTL_INVALID_HANDLE;
    for (int i = 0; i < 3; i++)
        went_well (PtlPut (md, 0, 12, PTL_ACK_REQ, end.id, table, 0, 0, NULL,
                           0));
    if (!went_well (entry_append (end.ni, table, &once, PTL_PRIORITY_LIST,
                                  NULL, &handles[1])))
        handles[1] = PTL_INVALID_HANDLE;
    went_well (entry_search (end.ni, table, &vector, PTL_SEARCH_ONLY, NULL));
    for (int i = 2; i < ENTRIES; i++)
        if (!went_well (entry_append_triggered (end.ni, table, &vector,
                                                PTL_PRIORITY_LIST, NULL,
                                                &handles[i], ct, 1)))
            handles[i] = PTL_INVALID_HANDLE;
    if (handles[2])
        went_well (entry_unlink_triggered (handles[2], ct, 1));
    CHECK (PtlCTSet (ct, (ptl_ct_event_t){ 1, 0 }) == PTL_OK);
    went_well (entry_search (end.ni, table, &vector, PTL_SEARCH_DELETE, NULL));
}

static void take_back (ptl_handle_eq_t eq)
{
    entry_t all = entry_of (NULL, 0, PTL_LE_OP_PUT);
    ptl_event_t event;
    int rc;

    CHECK (entry_search (end.ni, table, &all, PTL_SEARCH_DELETE, NULL)
           == PTL_OK);
    for (int i = 0; i < ENTRIES; i++) {
        rc = entry_unlink (handles[i]);
        CHECK (rc == PTL_OK || rc == PTL_ARG_INVALID);
    }
    while ((rc = PtlEQGet (eq, &event)) != PTL_EQ_EMPTY)
        CHECK (rc == PTL_OK);
    CHECK (PtlPTFree (end.ni, table) == PTL_OK);
}

int main (void)
{
    static char source[16];
    bool is_over = false;

    for (int nth = 0; !is_over; nth++) {
        ptl_handle_ct_t ct;
        ptl_handle_eq_t eq;
        ptl_handle_md_t md;

        kinds_open (&end, 1, 64, NULL);
        table = kinds_table (&end, 0, 64, &eq);
        CHECK (PtlCTAlloc (end.ni, &ct) == PTL_OK);
        md = bind_memory (&end, source, 16, 0, PTL_CT_NONE);
        left = nth;
        act (md, ct);
        is_over = left >= 0;
        left = -1;
        take_back (eq);
        CHECK (PtlMDRelease (md) == PTL_OK);
        kinds_close (&end, 1);
        CHECK (nth < 1000);
    }
    return 0;
}
