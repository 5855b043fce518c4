/* Signals interrupt waits, which go on; children are started meanwhile, and have
 * no part in it; and after PtlFini all begins once more (3.5.1).
 *
 * kinds: all
 */
#include <sys/time.h>
#include <sys/wait.h>

#include "world.h"

#define TIMES 60

static volatile sig_atomic_t n_ticks;

static void tick (int number)
{
    (void)number;
    n_ticks++;
}

static void tick_every (int microseconds)
{
    struct itimerval often
        = { { 0, microseconds }, { 0, microseconds } };
    struct sigaction action = { .sa_handler = tick }; /* no SA_RESTART */

    sigaction (SIGVTALRM, &action, NULL);
    sigaction (SIGUSR1, &action, NULL);
    CHECK (setitimer (ITIMER_VIRTUAL, &often, NULL) == 0);
}

/* A child that calls us is told, one that executes a program inherits nothing. */
static void have_children (ptl_handle_ni_t ni)
{
    ptl_process_t id;
    int status;
    pid_t child = fork ();

    if (child == 0)
        _exit (PtlGetPhysId (ni, &id) == PTL_NO_INIT ? 3 : 4);
    while (waitpid (child, &status, 0) < 0)
        ;
    CHECK (WIFEXITED (status) && WEXITSTATUS (status) == 3);
    child = fork ();
    if (child == 0) {
        execl ("/bin/sh", "sh", "-c", "kill -USR1 $PPID", (char *)NULL);
        _exit (4);
    }
    while (waitpid (child, &status, 0) < 0)
        ;
    CHECK (WIFEXITED (status) && WEXITSTATUS (status) == 0);
}

static void talk (int life)
{
    static uint64_t cells[64], mine[2];
    ptl_handle_ct_t came, done;
    ptl_handle_ni_t ni;
    ptl_handle_md_t md;
    ptl_process_t *ids = world_interface (NI_OPTIONS, NULL, NULL, &ni);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;

    OK (PtlCTAlloc (ni, &came));
    OK (PtlCTAlloc (ni, &done));
    expose (ni, 9, cells, sizeof (cells),
            PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_CT_COMM, came);
    md = bind_md (ni, mine, sizeof (mine),
                  PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE,
                  done);
    barrier ();
    for (int i = 0; i < TIMES; i++) {
        mine[0] = (uint64_t)(life * 1000 + i);
        OK (PtlPut (md, 0, 8, PTL_CT_ACK_REQ, ids[to], 9, 0,
                    8 * (ptl_size_t)rank, NULL, 0));
        wait_count (done, 2 * (ptl_size_t)i + 1);
        OK (PtlGet (md, 8, 8, ids[to], 9, 0, 8 * (ptl_size_t)rank, NULL));
        wait_count (done, 2 * (ptl_size_t)i + 2);
        CHECK (mine[1] == mine[0]);
        if (i % 20 == 5)
            have_children (ni);
    }
    wait_count (came, 2 * TIMES);
    barrier ();
    CHECK (cells[from] == (uint64_t)(life * 1000 + TIMES - 1));
}

int main (void)
{
    world_open ();
    tick_every (1000);
    talk (1);
    for (int life = 2; life <= 4; life++) {
        PtlFini ();
        barrier (); /* nobody calls where nobody is */
        OK (PtlInit ());
        talk (life);
    }
    CHECK (n_ticks > 0);
    return world_close ();
}
