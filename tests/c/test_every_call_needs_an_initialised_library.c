/* All calls: PTL_NO_INIT before PtlInit and after the last PtlFini (spec 3.5.2:
 * both are counted), whatever the arguments are; PtlFini and PtlAbort then do
 * nothing, and PtlHandleIsEqual needs no library.
 * kinds: all */
#include "calls.h"

static void check_all (const struct given *given)
{
    for (int i = 0; i < CALLS; i++)
        CHECK (calls[i].run (given) == PTL_NO_INIT);
    CHECK (PtlHandleIsEqual (1, 1) && !PtlHandleIsEqual (1, 2));
}

int main (void)
{
    static const struct given none;
    struct given given;
    ptl_handle_ni_t ni;

    PtlFini (); /* of nothing */
    PtlAbort ();
    check_all (&none);
    for (int life = 0; life < 2; life++) {
        CHECK (PtlInit () == PTL_OK);
        CHECK (PtlInit () == PTL_OK);
        ni = call_interface (NI_OPTIONS);
        call_make (ni, &given);
        PtlFini (); /* one user is left */
        CHECK (do_PtlEQGet (&given) == PTL_OK);
        CHECK (do_PtlGetId (&given) == PTL_OK);
        PtlFini ();
        PtlFini ();
        check_all (&given);
        check_all (&none);
    }
    return 0;
}
