/* Two threads wait for different queues of one endpoint. The one that looks
 * before it sleeps takes what the other, asleep already, waits for: that one
 * is woken, though the first finds nothing for itself. */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "harness.h"
#include "ptl_end.h"
#include "ptl_handle.h"
#include "ptl_ni.h"
#include "ptl_process.h"

#define ROUNDS 3
#define PATIENCE_S 60

struct waiter {
    bool is_slow; /* takes the processor from nobody who has it */
    ptl_handle_eq_t eq;
    ptl_pt_index_t index;
    int rc;
    pthread_t thread;
};

static struct end ends[2];
static struct ptl_end *target;
static char memory[8], source[8];

static void add_entry (struct waiter *waiter, ptl_pt_index_t wanted)
{
    ptl_me_t me = { .start = memory, .length = sizeof (memory),
                    .ct_handle = PTL_CT_NONE, .uid = PTL_UID_ANY,
                    .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE,
                    .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY } };
    ptl_handle_me_t handle;

    CHECK (PtlEQAlloc (ends[0].ni, 8, &waiter->eq) == PTL_OK);
    CHECK (PtlPTAlloc (ends[0].ni, 0, waiter->eq, wanted, &waiter->index)
           == PTL_OK);
    CHECK (PtlMEAppend (ends[0].ni, waiter->index, &me, PTL_PRIORITY_LIST,
                        NULL, &handle)
           == PTL_OK);
}

/* Both waiters on one processor: who looks is there first. */
static void share_processor (bool is_slow)
{
    struct sched_param parameter = { 0 };
    cpu_set_t all, one;
    size_t cpu = 0;

    CHECK (sched_getaffinity (0, sizeof (all), &all) == 0);
    while (!CPU_ISSET (cpu, &all))
        cpu++;
    CPU_ZERO (&one);
    CPU_SET (cpu, &one);
    CHECK (sched_setaffinity (0, sizeof (one), &one) == 0);
    if (is_slow)
        CHECK (sched_setscheduler (0, SCHED_BATCH, &parameter) == 0
               && nice (10) >= 0);
}

static void *wait_once (void *context)
{
    struct waiter *waiter = context;
    ptl_event_t event;

    share_processor (waiter->is_slow);
    waiter->rc = PtlEQWait (waiter->eq, &event);
    return NULL;
}

static void begin (struct waiter *waiter)
{
    CHECK (pthread_create (&waiter->thread, NULL, wait_once, waiter) == 0);
}

static void end_wait (struct waiter *waiter)
{
    struct timespec until;

    clock_gettime (CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    CHECK (pthread_timedjoin_np (waiter->thread, NULL, &until) == 0);
    CHECK (waiter->rc == PTL_OK);
}

/* Until so many threads wait, of whom one sleeps in the epoll set. */
static void await_waiters (unsigned count)
{
    bool is_so = false;

    while (!is_so) {
        sched_yield ();
        ptl_lock ();
        is_so = target->n_waiting == count && target->n_asleep == 1;
        ptl_unlock ();
    }
}

static void put (ptl_handle_md_t md, const struct waiter *waiter)
{
    CHECK (PtlPut (md, 0, 8, PTL_NO_ACK_REQ, ends[0].id, waiter->index, 0, 0,
                   NULL, 0)
           == PTL_OK);
}

static void connect_ends (ptl_handle_md_t md, const struct waiter *waiter)
{
    ptl_event_t event;
    int rc = PTL_EQ_EMPTY;

    put (md, waiter);
    while (rc == PTL_EQ_EMPTY) {
        end_take (&ends[1]);
        rc = PtlEQGet (waiter->eq, &event);
    }
    CHECK (rc == PTL_OK);
}

int main (void)
{
    struct waiter asleep = { .is_slow = true }, looking = { 0 };
    ptl_md_t md = { .start = source, .length = sizeof (source),
                    .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE };
    ptl_handle_md_t md_handle;
    struct ptl_ni *ni;

    CHECK (setenv ("PTL_SPIN_US", "200000", 1) == 0);
    end_open (&ends[0], 64);
    end_open (&ends[1], 64);
    CHECK (ptl_handle_find (ends[0].ni, PTL_HANDLE_NI, &ni) == PTL_OK);
    target = ni->end;
    add_entry (&asleep, 2);
    add_entry (&looking, 3);
    CHECK (PtlMDBind (ends[1].ni, &md, &md_handle) == PTL_OK);
    connect_ends (md_handle, &asleep);
    for (int i = 0; i < ROUNDS; i++) {
        begin (&asleep);
        await_waiters (1);
        begin (&looking);
        await_waiters (2);
        put (md_handle, &asleep);
        end_wait (&asleep);
        put (md_handle, &looking);
        end_wait (&looking);
    }
    CHECK (PtlMDRelease (md_handle) == PTL_OK);
    end_close (&ends[1]);
    end_close (&ends[0]);
    return 0;
}
