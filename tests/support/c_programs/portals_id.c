/* An interface of its own, by nothing but what portals4.h declares. */
#include <stdio.h>

#include <portals4.h>

int main (void)
{
    ptl_handle_ni_t ni;
    ptl_process_t id;
    ptl_pid_t pid;

    if (PtlInit () != PTL_OK
        || PtlNIInit (PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL,
                      PTL_PID_ANY, NULL, NULL, &ni)
               != PTL_OK
        || PtlGetPhysId (ni, &id) != PTL_OK)
        return 1;
    pid = id.phys.pid;
    PtlNIFini (ni);
    PtlFini ();
    puts (pid ? "an interface" : "none");
    return 0;
}
