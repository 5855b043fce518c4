/* Entries and headers come from what was freed before: once there have been as
 * many as are needed at a time, an append, a message that lands, a header that is
 * left and taken and an unlink allocate nothing.
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

static unsigned calls;

void *__wrap_malloc (size_t size)
{
    calls++;
    return __real_malloc (size);
}

void *__wrap_calloc (size_t n, size_t size)
{
    calls++;
    return __real_calloc (n, size);
}

void *__wrap_realloc (void *old, size_t size)
{
    calls++;
    return __real_realloc (old, size);
}

#include "kinds.h"

static struct end ends[2], *a = &ends[0], *b = &ends[1];

static void round_of (ptl_handle_md_t md, ptl_pt_index_t index,
                      ptl_handle_eq_t eq)
{
    char memory[8];
    entry_t entry = entry_of (memory, 8, PTL_LE_OP_PUT | PTL_LE_USE_ONCE);
    ptl_handle_me_t handle;

    put_entry (b, index, &entry, PTL_PRIORITY_LIST, NULL);
    expect (eq, PTL_EVENT_LINK);
    put_to (ends, 2, a, md, 8, b, index, 0, 0, 0);
    expect (eq, PTL_EVENT_PUT);
    expect (eq, PTL_EVENT_AUTO_UNLINK);
    put_entry (b, index, &entry, PTL_OVERFLOW_LIST, NULL);
    expect (eq, PTL_EVENT_LINK);
    put_to (ends, 2, a, md, 8, b, index, 0, 0, 0);
    expect (eq, PTL_EVENT_PUT);
    expect (eq, PTL_EVENT_AUTO_UNLINK);
    put_entry (b, index, &entry, PTL_PRIORITY_LIST, NULL);
    expect (eq, PTL_EVENT_PUT_OVERFLOW);
    expect (eq, PTL_EVENT_AUTO_FREE);
    expect (eq, PTL_EVENT_AUTO_UNLINK);
    handle = put_entry (b, index, &entry, PTL_PRIORITY_LIST, NULL);
    expect (eq, PTL_EVENT_LINK);
    CHECK (entry_unlink (handle) == PTL_OK);
    a->n = b->n = 0;
}

int main (void)
{
    char source[8] = "";
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    ptl_pt_index_t index;
    unsigned before;

    kinds_open (ends, 2, 16, NULL);
    index = kinds_table (b, 0, 16, &eq);
    md = bind_memory (a, source, 8, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    for (int i = 0; i < 3; i++)
        round_of (md, index, eq);
    before = calls;
    for (int i = 0; i < 50; i++)
        round_of (md, index, eq);
    CHECK (calls == before);
    kinds_close (ends, 2);
    return 0;
}
