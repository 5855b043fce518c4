/* All calls: PTL_ARG_INVALID for each handle that is none, was never given,
 * names an object that was freed, is of another kind, or belongs to another
 * interface than the others of the call. Handles of one interface die with
 * it (PtlNIFini), those of the other interface do not.
 * kinds: all */
#include "calls.h"

static struct given good, freed, foreign;

/* The call with one handle that is wrong. */
static void refuses (const struct call *call, enum slot slot,
                     ptl_handle_any_t bad)
{
    struct given given = good;

    given.handles[slot] = bad;
    if (call->run (&given) == PTL_ARG_INVALID)
        return;
    fprintf (stderr, "%s takes %x as handle %d\n", call->name, bad,
             (int)slot);
    exit (1);
}

static bool is_counter (enum slot slot)
{
    return slot == CT || slot == TRIGGER;
}

static bool is_descriptor (enum slot slot)
{
    return slot == MD || slot == GET_MD;
}

static bool are_of_a_kind (enum slot a, enum slot b)
{
    return a == b || (is_counter (a) && is_counter (b))
        || (is_descriptor (a) && is_descriptor (b));
}

/* Any handle names its interface. */
static bool takes_any (const struct call *call)
{
    return strcmp (call->name, "PtlNIHandle") == 0;
}

static void check_slot (const struct call *call, enum slot slot)
{
    ptl_handle_any_t own = good.handles[slot];

    if (!(call->optional & BIT (slot)))
        refuses (call, slot, PTL_INVALID_HANDLE);
    refuses (call, slot, UINT32_MAX);
    refuses (call, slot, own + 100000);
    refuses (call, slot, own & UINT32_C (0x0fffffff));
    refuses (call, slot, own | UINT32_C (0xf0000000));
    refuses (call, slot, freed.handles[slot]);
    if (call->own & BIT (slot))
        refuses (call, slot, foreign.handles[slot]);
    for (enum slot other = NI; other < SLOTS && !takes_any (call); other++)
        if (!are_of_a_kind (slot, other))
            refuses (call, slot, good.handles[other]);
}

static void check_all (ptl_handle_ni_t ni)
{
    for (int i = 0; i < CALLS; i++) {
        if (!call_is_valid (&calls[i]))
            continue;
        for (enum slot slot = NI; slot < SLOTS; slot++)
            if (calls[i].uses & BIT (slot))
                check_slot (&calls[i], slot);
        call_make (ni, &good); /* with them it is valid */
        if (calls[i].run (&good) == PTL_ARG_INVALID) {
            fprintf (stderr, "%s takes nothing\n", calls[i].name);
            exit (1);
        }
    }
}

/* Objects that are there no more. The interface is one of those before. */
static void make_freed (ptl_handle_ni_t ni, ptl_handle_ni_t gone)
{
    ptl_handle_any_t *h = freed.handles;

    call_make (ni, &freed);
    CHECK (entry_unlink (h[ENTRY]) == PTL_OK);
    CHECK (PtlPTFree (ni, freed.index) == PTL_OK);
    CHECK (PtlMDRelease (h[MD]) == PTL_OK);
    CHECK (PtlMDRelease (h[GET_MD]) == PTL_OK);
    CHECK (PtlCTFree (h[CT]) == PTL_OK && PtlCTFree (h[TRIGGER]) == PTL_OK);
    CHECK (PtlEQFree (h[EQ]) == PTL_OK);
    h[NI] = gone;
}

/* Calls for the other sort of entry, and maps of what has no ranks. */
static void check_other_sort (void)
{
    struct given g = good;

    if (IS_MATCHING) {
        CHECK (do_PtlLEAppend (&g) == PTL_ARG_INVALID);
        CHECK (do_PtlLESearch (&g) == PTL_ARG_INVALID);
        CHECK (do_PtlLEUnlink (&g) == PTL_ARG_INVALID);
        CHECK (do_PtlTriggeredLEAppend (&g) == PTL_ARG_INVALID);
        CHECK (do_PtlTriggeredLEUnlink (&g) == PTL_ARG_INVALID);
    }
    else {
        CHECK (do_PtlMEAppend (&g) == PTL_ARG_INVALID);
        CHECK (do_PtlMESearch (&g) == PTL_ARG_INVALID);
        CHECK (do_PtlMEUnlink (&g) == PTL_ARG_INVALID);
        CHECK (do_PtlTriggeredMEAppend (&g) == PTL_ARG_INVALID);
        CHECK (do_PtlTriggeredMEUnlink (&g) == PTL_ARG_INVALID);
    }
    if (!IS_LOGICAL) {
        CHECK (do_PtlSetMap (&g) == PTL_ARG_INVALID);
        CHECK (do_PtlGetMap (&g) == PTL_ARG_INVALID);
    }
}

int main (void)
{
    ptl_handle_ni_t ni, other, again, gone;

    CHECK (PtlInit () == PTL_OK);
    gone = call_interface (NI_OPTIONS);
    other = call_interface (NI_OTHER);
    CHECK (PtlNIFini (gone) == PTL_OK);
    ni = call_interface (NI_OPTIONS);
    CHECK (ni != gone);
    make_freed (ni, gone);
    call_make (other, &foreign);
    call_make (ni, &good);
    check_other_sort ();
    again = call_interface (NI_OPTIONS); /* counted: the table's last call */
    CHECK (again == ni);
    CHECK (PtlStartBundle (ni) == PTL_OK); /* PtlEndBundle ends this one */
    check_all (ni);
    while (PtlNIFini (ni) == PTL_OK) /* those that the table opened */
        ;
    for (enum slot slot = NI; slot < SLOTS; slot++) {
        CHECK (PtlNIHandle (good.handles[slot], &again) == PTL_ARG_INVALID);
        CHECK (PtlNIHandle (foreign.handles[slot], &again) == PTL_OK
               && again == other);
    }
    for (int i = 0; i < CALLS; i++)
        CHECK (!calls[i].uses || calls[i].run (&good) == PTL_ARG_INVALID);
    PtlFini ();
    return 0;
}
