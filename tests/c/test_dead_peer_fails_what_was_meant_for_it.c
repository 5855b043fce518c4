/* A process is killed while a large put to it is under way, and while one
 * from it is: the one ends UNDELIVERABLE, so does the other, the entry can be
 * unlinked, one event names the peer. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define LARGE (64u << 20)

static ptl_process_t read_id (int fd)
{
    ptl_process_t id;

    CHECK (read (fd, &id, sizeof (id)) == sizeof (id));
    return id;
}

/* The victim: takes a first message, answers with a put that never ends. */
static void victim (int to_parent, int from_parent)
{
    struct end end;
    ptl_process_t parent;
    uint8_t *memory = calloc (1, LARGE);

    end_open (&end, 64);
    CHECK (write (to_parent, &end.id, sizeof (end.id)) == sizeof (end.id));
    parent = read_id (from_parent);
    open_table (&end, 0);
    PtlPut (bind_memory (&end, memory, LARGE, 0, PTL_CT_NONE), 0, LARGE,
            PTL_ACK_REQ, parent, 0, 0, 0, NULL, 0);
    pump_until (&end, 1, &end, PTL_EVENT_SEND, 2); /* never */
}

static bool has_some (void *context)
{
    return *(volatile uint8_t *)context != 0;
}

int main (void)
{
    int up[2], down[2];
    pid_t child;
    struct end ends[1], *a = &ends[0];
    uint8_t *target = calloc (1, LARGE), *source = calloc (1, LARGE);
    ptl_handle_me_t me;
    ptl_handle_md_t md;
    ptl_handle_ct_t ct;
    ptl_ct_event_t value;
    ptl_process_t id;

    CHECK (pipe (up) == 0 && pipe (down) == 0);
    if ((child = fork ()) == 0) {
        close (up[0]);
        victim (up[1], down[0]);
        _exit (0);
    }
    id = read_id (up[0]);
    end_open (a, 64);
    CHECK (PtlCTAlloc (a->ni, &ct) == PTL_OK);
    CHECK (open_table (a, 0) == 0);
    me = open_entry (a, 0, target, LARGE, PTL_ME_EVENT_CT_COMM, ct);
    CHECK (write (down[1], &a->id, sizeof (a->id)) == sizeof (a->id));
    memset (target, 0, 1);
    (void)has_some;
    {
        struct ptlx_counters counters;
        int64_t until = now_ms () + LIMIT_MS;

        do { /* some of its put has landed */
            end_take (a);
            CHECK (PtlxCounters (a->ni, &counters) == PTL_OK);
            CHECK (now_ms () < until);
        } while (counters.bytes_in < 1 << 20);
    }
    CHECK (PtlMEUnlink (me) == PTL_IN_USE);
    md = bind_memory (a, source, LARGE, 0, PTL_CT_NONE);
    PtlPut (md, 0, LARGE, PTL_ACK_REQ, id, 0, 0, 0, NULL, 5);
    CHECK (PtlMDRelease (md) == PTL_IN_USE);
    kill (child, SIGKILL);
    waitpid (child, NULL, 0);
    pump_until (ends, 1, a, PTLX_EVENT_PEER_LOST, 1);
    CHECK (event_of (a, PTLX_EVENT_PEER_LOST, 0)->reason == PTLX_LOSS_DIED);
    CHECK (event_of (a, PTLX_EVENT_PEER_LOST, 0)->pid == id.phys.pid);
    CHECK (event_of (a, PTL_EVENT_PUT, 0)->ni_fail == PTL_NI_UNDELIVERABLE);
    CHECK (event_of (a, PTL_EVENT_SEND, 0)->ni_fail == PTL_NI_UNDELIVERABLE);
    CHECK (event_of (a, PTL_EVENT_ACK, 0)->ni_fail == PTL_NI_UNDELIVERABLE);
    CHECK (PtlCTGet (ct, &value) == PTL_OK);
    CHECK (value.failure == 1 && value.success == 0);
    CHECK (PtlMEUnlink (me) == PTL_OK);
    CHECK (PtlMDRelease (md) == PTL_OK);
    CHECK (count_of (a, PTLX_EVENT_PEER_LOST) == 1);
    end_close (a);
    free (target);
    free (source);
    return 0;
}
