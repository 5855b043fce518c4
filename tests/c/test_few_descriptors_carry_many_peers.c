/* Eight processes of which each has descriptors for four connections: each adds
 * to a number of every other, again and again, with an ack and without. Each
 * addition comes once.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "portals4.h"

#define PROCESSES 8
#define CONNECTIONS 4
#define OWN 6 /* of an interface */
#define ROUNDS 20

struct place {
    pthread_barrier_t barrier;
    ptl_process_t ids[PROCESSES];
};

/* Others are open already, and stay. */
static void allow_few (void)
{
    struct rlimit limit;
    int n_free = 0;

    CHECK (getrlimit (RLIMIT_NOFILE, &limit) == 0);
    for (limit.rlim_cur = 0; n_free < OWN + CONNECTIONS; limit.rlim_cur++)
        n_free += fcntl ((int)limit.rlim_cur, F_GETFD) < 0;
    CHECK (setrlimit (RLIMIT_NOFILE, &limit) == 0);
}

static ptl_handle_md_t bind_one (ptl_handle_ni_t ni, uint64_t *one,
                                 ptl_handle_ct_t acks)
{
    ptl_md_t md = { one, sizeof (*one), PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE,
                    acks };
    ptl_handle_md_t handle;

    CHECK (PtlMDBind (ni, &md, &handle) == PTL_OK);
    return handle;
}

static void expose (ptl_handle_ni_t ni, uint64_t *numbers, ptl_handle_ct_t ct)
{
    ptl_le_t le = { .start = numbers,
                    .length = PROCESSES * sizeof (*numbers),
                    .ct_handle = ct,
                    .uid = PTL_UID_ANY,
                    .options = PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM };
    ptl_handle_le_t handle;
    ptl_pt_index_t index;

    CHECK (PtlPTAlloc (ni, 0, PTL_EQ_NONE, 0, &index) == PTL_OK);
    CHECK (PtlLEAppend (ni, index, &le, PTL_PRIORITY_LIST, NULL, &handle)
           == PTL_OK);
}

static void add_everywhere (const struct place *place, int self,
                            ptl_handle_md_t md)
{
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 1; i < PROCESSES; i++)
            CHECK (PtlAtomic (md, 0, 8,
                              round % 2 ? PTL_CT_ACK_REQ : PTL_NO_ACK_REQ,
                              place->ids[(self + i) % PROCESSES], 0, 0,
                              8 * (ptl_size_t)self, NULL, 0, PTL_SUM,
                              PTL_UINT64_T)
                   == PTL_OK);
}

static void wait_for (ptl_handle_ct_t ct, ptl_size_t n)
{
    ptl_ct_event_t value;

    CHECK (PtlCTWait (ct, n, &value) == PTL_OK);
    CHECK (value.success == n && value.failure == 0);
}

static void be (struct place *place, int self)
{
    static uint64_t numbers[PROCESSES], one = 1;
    ptl_handle_ct_t came, acks;
    ptl_handle_ni_t ni;

    allow_few ();
    CHECK (PtlInit () == PTL_OK);
    CHECK (PtlNIInit (PTL_IFACE_DEFAULT,
                      PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL,
                      NULL, &ni)
           == PTL_OK);
    CHECK (PtlCTAlloc (ni, &came) == PTL_OK);
    CHECK (PtlCTAlloc (ni, &acks) == PTL_OK);
    expose (ni, numbers, came);
    CHECK (PtlGetPhysId (ni, &place->ids[self]) == PTL_OK);
    pthread_barrier_wait (&place->barrier);
    add_everywhere (place, self, bind_one (ni, &one, acks));
    wait_for (acks, ROUNDS / 2 * (PROCESSES - 1));
    wait_for (came, ROUNDS * (PROCESSES - 1));
    pthread_barrier_wait (&place->barrier);
    for (int i = 0; i < PROCESSES; i++)
        CHECK (numbers[i] == (i == self ? 0 : ROUNDS));
    PtlFini ();
}

int main (void)
{
    struct place *place
        = mmap (NULL, sizeof (*place), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t shared;
    int status;

    CHECK (place != MAP_FAILED);
    CHECK (pthread_barrierattr_init (&shared) == 0);
    CHECK (pthread_barrierattr_setpshared (&shared, PTHREAD_PROCESS_SHARED)
           == 0);
    CHECK (pthread_barrier_init (&place->barrier, &shared, PROCESSES) == 0);
    for (int i = 0; i < PROCESSES; i++)
        if (fork () == 0) {
            alarm (110); /* nobody waits for ever for one that fails */
            be (place, i);
            return 0;
        }
    for (int i = 0; i < PROCESSES; i++) {
        CHECK (wait (&status) > 0);
        CHECK (status == 0);
    }
    return 0;
}
