/* A process dies with gets, fetches and triggered operations under way, its
 * own and ours: REPLY says UNDELIVERABLE, and SEND where nothing had left; the
 * target's GET event does, too; entries and descriptors are free again. */
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

/* Begins a get that never completes, and is stopped. */
static void victim (int to_parent, int from_parent)
{
    struct end end;
    struct ptlx_counters counters;
    ptl_process_t parent;
    uint8_t *memory = calloc (1, LARGE);
    ptl_pt_index_t place;

    end_open (&end, 64);
    place = open_table (&end, 0);
    open_entry (&end, place, memory, LARGE, PTL_ME_OP_GET, PTL_CT_NONE);
    CHECK (write (to_parent, &end.id, sizeof (end.id)) == sizeof (end.id));
    parent = read_id (from_parent);
    CHECK (PtlGet (bind_memory (&end, memory, LARGE, 0, PTL_CT_NONE), 0, LARGE,
                   parent, 0, 0, 0, NULL)
           == PTL_OK);
    do {
        end_take (&end);
        CHECK (PtlxCounters (end.ni, &counters) == PTL_OK);
    } while (counters.bytes_in < 1 << 20);
    raise (SIGSTOP);
    _exit (0);
}

static bool is_stopped (void *context)
{
    pid_t child = *(pid_t *)context;
    int status;

    return waitpid (child, &status, WUNTRACED | WNOHANG) == child
        && WIFSTOPPED (status);
}

int main (void)
{
    int up[2], down[2];
    struct end ends[1], *a = &ends[0];
    uint8_t *memory = calloc (1, LARGE);
    static uint8_t small[65536];
    ptl_handle_md_t md, get;
    ptl_handle_me_t me;
    ptl_handle_ct_t ct;
    ptl_ct_event_t value;
    ptl_process_t id;
    pid_t child;

    CHECK (pipe (up) == 0 && pipe (down) == 0);
    if ((child = fork ()) == 0)
        victim (up[1], down[0]);
    id = read_id (up[0]);
    end_open (a, 64);
    CHECK (open_table (a, 0) == 0);
    CHECK (PtlCTAlloc (a->ni, &ct) == PTL_OK);
    me = open_entry (a, 0, memory, LARGE,
                     PTL_ME_OP_GET | PTL_ME_EVENT_CT_COMM, ct);
    CHECK (write (down[1], &a->id, sizeof (a->id)) == sizeof (a->id));
    pump (ends, 1, is_stopped, &child);
    CHECK (PtlMEUnlink (me) == PTL_IN_USE);
    get = bind_memory (a, small, sizeof (small), PTL_MD_EVENT_CT_REPLY, ct);
    md = bind_memory (a, memory, LARGE, PTL_MD_EVENT_CT_SEND, ct);
    CHECK (PtlGet (get, 0, 100, id, 0, 0, 0, NULL) == PTL_OK);
    CHECK (PtlPut (md, 0, LARGE, PTL_NO_ACK_REQ, id, 0, 0, 0, NULL, 0)
           == PTL_OK);
    for (int i = 0; i < 20; i++)
        CHECK (PtlFetchAtomic (get, 0, md, 0, 65536, id, 0, 0, 0, NULL, 0,
                               PTL_SUM, PTL_UINT8_T)
               == PTL_OK);
    CHECK (kill (child, SIGKILL) == 0);
    waitpid (child, NULL, 0);
    pump_until (ends, 1, a, PTLX_EVENT_PEER_LOST, 1);
    CHECK (count_of (a, PTL_EVENT_REPLY) == 21);
    CHECK (count_of (a, PTL_EVENT_SEND) == 21);
    CHECK (count_of (a, PTL_EVENT_GET) == 1);
    for (int i = 0; i < a->n; i++)
        if (a->log[i].type != PTL_EVENT_SEND
            && a->log[i].type != PTLX_EVENT_PEER_LOST)
            CHECK (a->log[i].ni_fail == PTL_NI_UNDELIVERABLE);
    CHECK (event_of (a, PTL_EVENT_SEND, 20)->ni_fail == PTL_NI_UNDELIVERABLE);
    CHECK (PtlCTGet (ct, &value) == PTL_OK);
    CHECK (value.failure + value.success == 1 + 21 + 21);
    CHECK (PtlMEUnlink (me) == PTL_OK);
    CHECK (PtlMDRelease (md) == PTL_OK && PtlMDRelease (get) == PTL_OK);
    end_close (a);
    free (memory);
    return 0;
}
