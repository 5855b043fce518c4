/* Handles (spec 3.2.1, 3.3.2): integers that are compared with == and have
 * constant initialisers, three that name nothing and are not the same; PtlHandleIsEqual and PtlNIHandle say what they name. Two
 * processes that make the same calls in the same order have the same ones,
 * whatever the network did meanwhile. One that is freed is never given again, not
 * for another kind of object nor after PtlFini.
 * kinds: all */
#include "kinds.h"
#include "pair.h"

#define SOME 16
#define MANY 4096

static const ptl_handle_any_t nothing[]
    = { PTL_INVALID_HANDLE, PTL_EQ_NONE, PTL_CT_NONE };
static ptl_handle_ni_t constant = PTL_INVALID_HANDLE;

_Static_assert (PTL_EQ_NONE != PTL_INVALID_HANDLE
                    && PTL_CT_NONE != PTL_INVALID_HANDLE
                    && PTL_EQ_NONE != PTL_CT_NONE,
                "they are constants, three of them");
_Static_assert (sizeof (ptl_handle_any_t) == sizeof (uint32_t), "integers");

static struct pair pair;
static ptl_handle_any_t handles[MANY];
static int n;

static ptl_handle_any_t keep (ptl_handle_any_t handle)
{
    ptl_handle_ni_t ni;

    CHECK (n < MANY);
    CHECK (handle != PTL_INVALID_HANDLE && handle != constant);
    CHECK (PtlNIHandle (handle, &ni) == PTL_OK && ni == pair.ni);
    CHECK (PtlHandleIsEqual (handle, handle));
    CHECK (n == 0 || !PtlHandleIsEqual (handle, handles[n - 1]));
    return handles[n++] = handle;
}

/* One of each kind. Every other one is freed, so that places are free. */
static void make (int round)
{
    entry_t entry = entry_of (NULL, 0, PTL_LE_OP_PUT);
    ptl_md_t md = { .start = NULL, .eq_handle = PTL_EQ_NONE,
                    .ct_handle = PTL_CT_NONE };
    ptl_handle_any_t eq, ct, handle, me;
    ptl_pt_index_t index;

    CHECK (PtlEQAlloc (pair.ni, 4, &eq) == PTL_OK);
    keep (eq);
    CHECK (PtlCTAlloc (pair.ni, &ct) == PTL_OK);
    keep (ct);
    CHECK (PtlMDBind (pair.ni, &md, &handle) == PTL_OK);
    keep (handle);
    CHECK (PtlPTAlloc (pair.ni, 0, eq, PTL_PT_ANY, &index) == PTL_OK);
    CHECK (entry_append (pair.ni, index, &entry, PTL_PRIORITY_LIST, NULL, &me)
           == PTL_OK);
    keep (me);
    if (round % 2)
        return;
    CHECK (PtlMDRelease (handle) == PTL_OK && entry_unlink (me) == PTL_OK);
    CHECK (PtlPTFree (pair.ni, index) == PTL_OK);
    CHECK (PtlEQFree (eq) == PTL_OK && PtlCTFree (ct) == PTL_OK);
}

/* The child alone puts to itself: no handles come of that, but operations,
 * headers, entries that unlink themselves. */
static void work (void)
{
    entry_t over = entry_of (NULL, 0, PTL_LE_OP_PUT);
    entry_t once = entry_of (NULL, 0, PTL_LE_OP_PUT | PTL_LE_USE_ONCE);
    ptl_md_t md = { .start = NULL, .eq_handle = PTL_EQ_NONE,
                    .ct_handle = PTL_CT_NONE };
    ptl_handle_any_t handle;
    ptl_pt_index_t index;

    CHECK (PtlPTAlloc (pair.ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &index)
           == PTL_OK);
    CHECK (PtlMDBind (pair.ni, &md, &handle) == PTL_OK);
    CHECK (entry_append (pair.ni, index, &over, PTL_OVERFLOW_LIST, NULL,
                         &handles[n])
           == PTL_OK);
    CHECK (entry_append (pair.ni, index, &once, PTL_PRIORITY_LIST, NULL,
                         &handles[n])
           == PTL_OK);
    for (int i = 0; pair.rank == 1 && i < SOME; i++)
        CHECK (PtlPut (handle, 0, 0, PTL_NO_ACK_REQ, pair.self, index, 0, 0,
                       NULL, 0)
               == PTL_OK);
    CHECK (entry_search (pair.ni, index, &over, PTL_SEARCH_DELETE, NULL)
           == PTL_OK);
}

static int by_value (const void *a, const void *b)
{
    ptl_handle_any_t x = *(const ptl_handle_any_t *)a;
    ptl_handle_any_t y = *(const ptl_handle_any_t *)b;

    return (x > y) - (x < y);
}

int main (void)
{
    ptl_handle_any_t others[MANY];
    ptl_handle_ni_t unused;
    int n_others, failed;

    pair_open (&pair, NI_OPTIONS);
    for (int i = 0; i < 3; i++)
        CHECK (PtlNIHandle (nothing[i], &unused) == PTL_ARG_INVALID);
    keep (pair.ni);
    for (int i = 0; i < SOME; i++) {
        work ();
        make (i);
    }
    pair_say (&pair, &n, sizeof (n));
    pair_hear (&pair, &n_others, sizeof (n_others));
    CHECK (n == n_others);
    pair_say (&pair, handles, (size_t)n * sizeof (*handles));
    pair_hear (&pair, others, (size_t)n * sizeof (*handles));
    CHECK (memcmp (handles, others, (size_t)n * sizeof (*handles)) == 0);
    failed = pair_close (&pair);

    unsetenv ("PTL_KEY_FILE"); /* it has gone */
    CHECK (PtlInit () == PTL_OK); /* a new life */
    CHECK (PtlNIInit (PTL_IFACE_DEFAULT, NI_OPTIONS, PTL_PID_ANY, NULL, NULL,
                      &pair.ni)
           == PTL_OK);
    keep (pair.ni);
    for (int i = 0; i < SOME; i++)
        make (i);
    PtlFini ();
    qsort (handles, (size_t)n, sizeof (*handles), by_value);
    for (int i = 1; i < n; i++)
        CHECK (handles[i] != handles[i - 1]);
    return failed;
}
