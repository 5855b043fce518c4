/* In the child each call returns PTL_NO_INIT, and the parent's peers do not
 * notice it. */
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    ptl_event_t event;
    int status;
    pid_t child;

    end_open (a, 16);
    end_open (b, 16);
    CHECK (open_table (b, PTL_PT_FLOWCTRL) == 0);
    if ((child = fork ()) == 0) {
        bool ok = PtlEQGet (a->eq, &event) == PTL_NO_INIT
            && PtlxSend (a->ni, b->id.phys.nid, b->id.phys.pid, "x", 1)
                   == PTL_NO_INIT
            && PtlNIFini (a->ni) == PTL_NO_INIT && PtlInit () == PTL_FAIL;

        PtlFini ();
        _exit (ok ? 0 : 1);
    }
    CHECK (waitpid (child, &status, 0) == child && status == 0);
    PtlxSend (a->ni, b->id.phys.nid, b->id.phys.pid, "x", 1);
    pump_until (ends, 2, b, PTL_EVENT_PT_DISABLED, 1); /* it came through */
    end_close (a);
    end_close (b);
    return 0;
}
