/* A rank of a yod job of several nodes that has no listener and no key of its
 * job would wait for ever: PtlNIInit fails (spec 3.6.2: PTL_FAIL) instead. With
 * a key file, or on one node, it is a process like any other. */
#include "pair.h"

static int begin (void)
{
    ptl_handle_ni_t ni;
    int rc;

    CHECK (PtlInit () == PTL_OK);
    rc = PtlNIInit (PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL,
                    PTL_PID_ANY, NULL, NULL, &ni);
    CHECK (rc != PTL_FAIL || errno == ENOKEY);
    PtlFini ();
    return rc;
}

int main (void)
{
    struct pair pair;

    unsetenv ("PTL_KEY_FILE");
    setenv ("YOD_SIZE", "4", 1);
    setenv ("YOD_LOCAL_SIZE", "2", 1);
    CHECK (begin () == PTL_FAIL);
    setenv ("YOD_LOCAL_SIZE", "4", 1);
    CHECK (begin () == PTL_OK);
    setenv ("YOD_LOCAL_SIZE", "2", 1);
    pair_key (&pair);
    CHECK (begin () == PTL_OK);
    unlink (pair.key);
    return 0;
}
