/* Once an abort has woken those who waited, the descriptor of an interface is
 * no longer readable because of it: a loop, or the progress thread, sleeps. */
#include "harness.h"

static bool is_readable (const struct end *end)
{
    struct pollfd fd = { .events = POLLIN };

    CHECK (PtlxFd (end->ni, &fd.fd) == PTL_OK);
    return poll (&fd, 1, 0) > 0;
}

int main (void)
{
    struct end end;

    end_open (&end, 16);
    end_take (&end);
    CHECK (!is_readable (&end));
    PtlAbort ();
    CHECK (is_readable (&end));
    end_take (&end);
    end_take (&end);
    CHECK (!is_readable (&end));
    end_close (&end);
    return 0;
}
