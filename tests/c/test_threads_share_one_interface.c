/* Ten threads in one interface (spec 2.6: the interface is thread safe): each
 * puts to the process itself and waits for its own counter and its own queue. */
#include <pthread.h>

#include "harness.h"

#define THREADS 10
#define ROUNDS 200

static ptl_handle_ni_t ni;
static ptl_process_t self;

static void *work (void *context)
{
    uint64_t number = (uint64_t)(uintptr_t)context, from, to = 0;
    ptl_handle_ct_t ct;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    ptl_handle_me_t me;
    ptl_pt_index_t index;
    ptl_ct_event_t count;
    ptl_event_t event;
    unsigned which;

    CHECK (PtlCTAlloc (ni, &ct) == PTL_OK);
    CHECK (PtlEQAlloc (ni, 16, &eq) == PTL_OK);
    CHECK (PtlPTAlloc (ni, 0, eq, PTL_PT_ANY, &index) == PTL_OK);
    CHECK (PtlMEAppend (ni, index,
                        &(ptl_me_t){
                            .start = &to,
                            .length = sizeof (to),
                            .uid = PTL_UID_ANY,
                            .options = PTL_ME_OP_PUT
                                | PTL_ME_EVENT_LINK_DISABLE,
                            .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY },
                            .ct_handle = PTL_CT_NONE,
                        },
                        PTL_PRIORITY_LIST, NULL, &me)
           == PTL_OK);
    CHECK (PtlMDBind (ni,
                      &(ptl_md_t){
                          .start = &from,
                          .length = sizeof (from),
                          .options = PTL_MD_EVENT_CT_ACK,
                          .eq_handle = PTL_EQ_NONE,
                          .ct_handle = ct,
                      },
                      &md)
           == PTL_OK);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        from = number << 32 | i;
        CHECK (PtlPut (md, 0, sizeof (from), PTL_CT_ACK_REQ, self, index, 0,
                       0, NULL, i)
               == PTL_OK);
        CHECK (PtlCTWait (ct, i, &count) == PTL_OK && count.failure == 0);
        CHECK (PtlEQPoll (&eq, 1, LIMIT_MS, &event, &which) == PTL_OK);
        CHECK (event.type == PTL_EVENT_PUT && event.hdr_data == i);
        CHECK (to == from);
    }
    CHECK (PtlMEUnlink (me) == PTL_OK && PtlMDRelease (md) == PTL_OK);
    CHECK (PtlPTFree (ni, index) == PTL_OK);
    CHECK (PtlEQFree (eq) == PTL_OK && PtlCTFree (ct) == PTL_OK);
    return NULL;
}

int main (void)
{
    pthread_t threads[THREADS];

    CHECK (PtlInit () == PTL_OK);
    CHECK (PtlNIInit (PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL,
                      PTL_PID_ANY, NULL, NULL, &ni)
           == PTL_OK);
    CHECK (PtlGetId (ni, &self) == PTL_OK);
    for (int i = 0; i < THREADS; i++)
        CHECK (pthread_create (&threads[i], NULL, work,
                               (void *)(uintptr_t)i)
               == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK (pthread_join (threads[i], NULL) == 0);
    CHECK (PtlNIFini (ni) == PTL_OK);
    PtlFini ();
    return 0;
}
