/* A wait ends when its object is freed (PtlEQFree, PtlCTFree), when another
 * thread changes the counter, when the interface ends, by its own time, and by
 * PtlAbort, which is sticky: "all present and later waits and polls". */
#include <pthread.h>

#include "harness.h"

static ptl_handle_ni_t ni;

struct wait {
    ptl_handle_any_t handle;
    bool is_queue;
    int rc;
    pthread_t thread;
};

static void *wait_for (void *context)
{
    struct wait *wait = context;
    ptl_ct_event_t count;
    ptl_event_t event;

    wait->rc = wait->is_queue ? PtlEQWait (wait->handle, &event)
                              : PtlCTWait (wait->handle, 1, &count);
    return NULL;
}

static void begin (struct wait *wait, bool is_queue)
{
    wait->is_queue = is_queue;
    if (is_queue)
        CHECK (PtlEQAlloc (ni, 4, &wait->handle) == PTL_OK);
    else
        CHECK (PtlCTAlloc (ni, &wait->handle) == PTL_OK);
    CHECK (pthread_create (&wait->thread, NULL, wait_for, wait) == 0);
}

static int result (struct wait *wait)
{
    CHECK (pthread_join (wait->thread, NULL) == 0);
    return wait->rc;
}

static void open_interface (void)
{
    CHECK (PtlInit () == PTL_OK);
    CHECK (PtlNIInit (PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL,
                      PTL_PID_ANY, NULL, NULL, &ni)
           == PTL_OK);
}

static void check_time (void)
{
    ptl_handle_ct_t ct;
    ptl_ct_event_t count;
    ptl_size_t test = 1;
    unsigned which;
    int64_t before = now_ms ();

    CHECK (PtlCTAlloc (ni, &ct) == PTL_OK);
    CHECK (PtlCTPoll (&ct, &test, 1, 30, &count, &which)
           == PTL_CT_NONE_REACHED);
    CHECK (now_ms () >= before + 29);
    CHECK (PtlCTPoll (&ct, &test, 1, 0, &count, &which)
           == PTL_CT_NONE_REACHED);
    CHECK (PtlCTFree (ct) == PTL_OK);
}

int main (void)
{
    struct wait queue, counter, many[4];
    ptl_handle_eq_t eq;
    ptl_event_t event;

    open_interface ();
    check_time ();
    begin (&queue, true);
    begin (&counter, false);
    CHECK (PtlEQFree (queue.handle) == PTL_OK);
    CHECK (PtlCTFree (counter.handle) == PTL_OK);
    CHECK (result (&queue) != PTL_OK && result (&counter) != PTL_OK);

    for (int i = 0; i < 4; i++)
        begin (&many[i], false);
    for (int i = 0; i < 4; i++)
        CHECK (PtlCTInc (many[i].handle, (ptl_ct_event_t){ 1, 0 })
               == PTL_OK);
    for (int i = 0; i < 4; i++)
        CHECK (result (&many[i]) == PTL_OK);

    begin (&queue, true);
    CHECK (PtlNIFini (ni) == PTL_OK);
    CHECK (result (&queue) != PTL_OK);
    PtlFini ();

    open_interface ();
    begin (&queue, true);
    begin (&counter, false);
    PtlAbort ();
    CHECK (result (&queue) == PTL_ABORTED);
    CHECK (result (&counter) == PTL_ABORTED);
    CHECK (PtlEQAlloc (ni, 4, &eq) == PTL_OK);
    CHECK (PtlEQWait (eq, &event) == PTL_ABORTED);
    PtlFini ();

    open_interface (); /* a new life is not aborted */
    check_time ();
    PtlFini ();
    return 0;
}
