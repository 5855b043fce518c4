/* ptl_api_wait.c - public calls: taking, waiting for and polling events.
 *
 * Handles are looked up again after every sleep: who waits for a queue or a
 * counter that another thread frees is told so (PTL_INTERRUPTED).
 */
#include "ptl_api.h"
#include "ptl_ct.h"
#include "ptl_eq.h"
#include "ptl_wait.h"

static int64_t until (ptl_time_t timeout)
{
    if (timeout == PTL_TIME_FOREVER)
        return PTL_NEVER;
    return ptl_clock_ns () + (int64_t)timeout * 1000000;
}

/* ---- event queues ---- */

struct eq_wish {
    const ptl_handle_eq_t *handles;
    unsigned n;
    ptl_event_t *event;
    unsigned *which;
};

static int take (void *context)
{
    const struct eq_wish *wish = context;
    struct ptlx_event own;
    struct ptl_eq *eq;
    int rc;

    for (unsigned i = 0; i < wish->n; i++) {
        if (ptl_handle_find (wish->handles[i], PTL_HANDLE_EQ, &eq) != PTL_OK)
            return PTL_INTERRUPTED;
        if ((rc = ptl_eq_get (eq, &own)) == PTL_EQ_EMPTY)
            continue;
        ptl_api_event (eq->ni, &own, wish->event);
        *wish->which = i;
        return rc;
    }
    return PTL_WAIT_MORE;
}

/* All of them valid, and of one endpoint. */
static int find_queues (const struct eq_wish *wish, struct ptl_end **endp)
{
    struct ptl_eq *eq;

    *endp = NULL;
    for (unsigned i = 0; i < wish->n; i++) {
        if (ptl_handle_find (wish->handles[i], PTL_HANDLE_EQ, &eq) != PTL_OK
            || (i > 0 && eq->ni->end != *endp))
            return PTL_ARG_INVALID;
        *endp = eq->ni->end;
    }
    return PTL_OK;
}

int PtlEQGet (ptl_handle_eq_t handle, ptl_event_t *event)
{
    unsigned which;
    struct eq_wish wish = { &handle, 1, event, &which };
    struct ptl_eq *eq;
    int rc = ptl_api_eq (handle, &eq);

    if (rc != PTL_OK)
        return rc;
    if (!event)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    if (eq->used == 0)
        ptl_end_poll (eq->ni->end);
    rc = take (&wish);
    return ptl_leave (eq->ni->end, rc == PTL_WAIT_MORE ? PTL_EQ_EMPTY : rc);
}

int PtlEQWait (ptl_handle_eq_t handle, ptl_event_t *event)
{
    unsigned which;

    return PtlEQPoll (&handle, 1, PTL_TIME_FOREVER, event, &which);
}

int PtlEQPoll (const ptl_handle_eq_t *handles, unsigned int size,
               ptl_time_t timeout, ptl_event_t *event, unsigned int *which)
{
    struct eq_wish wish = { handles, size, event, which };
    struct ptl_end *end;
    int rc = ptl_enter ();

    if (rc != PTL_OK)
        return rc;
    if (!handles || size == 0 || !event || !which
        || find_queues (&wish, &end) != PTL_OK)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    rc = ptl_wait (end, take, &wish, until (timeout));
    return ptl_leave (end, rc == PTL_WAIT_MORE ? PTL_EQ_EMPTY : rc);
}

/* ---- counting events ---- */

struct ct_wish {
    const ptl_handle_ct_t *handles;
    const ptl_size_t *tests;
    unsigned n;
    ptl_ct_event_t *event;
    unsigned *which;
};

/* A failure ends every wait: the test may never be reached. */
static int reached (void *context)
{
    const struct ct_wish *wish = context;
    struct ptl_ct *ct;

    for (unsigned i = 0; i < wish->n; i++) {
        if (ptl_handle_find (wish->handles[i], PTL_HANDLE_CT, &ct) != PTL_OK)
            return PTL_INTERRUPTED;
        if (ct->value.success < wish->tests[i] && ct->value.failure == 0)
            continue;
        *wish->event = ct->value;
        *wish->which = i;
        return PTL_OK;
    }
    return PTL_WAIT_MORE;
}

static int find_counters (const struct ct_wish *wish, struct ptl_end **endp)
{
    struct ptl_ct *ct;

    *endp = NULL;
    for (unsigned i = 0; i < wish->n; i++) {
        if (ptl_handle_find (wish->handles[i], PTL_HANDLE_CT, &ct) != PTL_OK
            || (i > 0 && ct->ni->end != *endp))
            return PTL_ARG_INVALID;
        *endp = ct->ni->end;
    }
    return PTL_OK;
}

int PtlCTGet (ptl_handle_ct_t handle, ptl_ct_event_t *event)
{
    struct ptl_ct *ct;
    int rc = ptl_api_ct (handle, &ct);

    if (rc != PTL_OK)
        return rc;
    if (!event)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    ptl_end_poll (ct->ni->end);
    *event = ct->value;
    return ptl_leave (ct->ni->end, PTL_OK);
}

int PtlCTWait (ptl_handle_ct_t handle, ptl_size_t test, ptl_ct_event_t *event)
{
    unsigned which;

    return PtlCTPoll (&handle, &test, 1, PTL_TIME_FOREVER, event, &which);
}

int PtlCTPoll (const ptl_handle_ct_t *handles, const ptl_size_t *tests,
               unsigned int size, ptl_time_t timeout, ptl_ct_event_t *event,
               unsigned int *which)
{
    struct ct_wish wish = { handles, tests, size, event, which };
    struct ptl_end *end;
    int rc = ptl_enter ();

    if (rc != PTL_OK)
        return rc;
    if (!handles || !tests || size == 0 || !event || !which
        || find_counters (&wish, &end) != PTL_OK)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    rc = ptl_wait (end, reached, &wish, until (timeout));
    return ptl_leave (end, rc == PTL_WAIT_MORE ? PTL_CT_NONE_REACHED : rc);
}
