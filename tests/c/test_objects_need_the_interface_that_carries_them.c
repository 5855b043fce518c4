/* Objects and their counters are on the matching physical interface: on one of
 * another kind PtlxForward says so. */
#include "harness.h"

int main (void)
{
    struct ptlx_config config = { .listen_nid = LOOPBACK,
                                  .partition_key = test_key };
    struct ptlx_object object = { .match_bits = 5, .fd = 0, .size = 4096,
                                  .chunk_bytes = 4096 };
    FILE *file = tmpfile ();
    ptl_handle_ni_t ni;

    CHECK (PtlInit () == PTL_OK);
    CHECK (PtlxNIInitKind (&config, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, NULL,
                           NULL, &ni)
           == PTL_OK);
    CHECK (file);
    object.fd = fileno (file);
    CHECK (PtlxForward (ni, &object) == PTL_ARG_INVALID);
    CHECK (PtlxCancel (ni, 5) == PTL_OK);
    CHECK (PtlxNIFini (ni, 0) == PTL_OK);
    PtlFini ();
    fclose (file);
    return 0;
}
