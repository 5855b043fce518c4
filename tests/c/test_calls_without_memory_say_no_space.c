/* PTL_NO_SPACE (spec 3.4): what every call that needs memory says when there is
 * none; nothing is begun, nothing is lost, and with memory it is done. Calls
 * that need none are done all the same.
 * kinds: all
 * link: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
 */
#include "calls.h"

void *__real_malloc (size_t size);
void *__real_calloc (size_t n, size_t size);
void *__real_realloc (void *old, size_t size);
void *__wrap_malloc (size_t size);
void *__wrap_calloc (size_t n, size_t size);
void *__wrap_realloc (void *old, size_t size);

static bool is_out;

void *__wrap_malloc (size_t size)
{
    return is_out ? NULL : __real_malloc (size);
}

void *__wrap_calloc (size_t n, size_t size)
{
    return is_out ? NULL : __real_calloc (n, size);
}

void *__wrap_realloc (void *old, size_t size)
{
    return is_out ? NULL : __real_realloc (old, size);
}

/* Calls that make something. */
static bool needs_memory (const char *name)
{
    static const char *const those[] = {
        "PtlSetMap",          "PtlMDBind",
        "PtlLEAppend",        "PtlMEAppend",
        "PtlLESearch",        "PtlMESearch",
        "PtlEQAlloc",         "PtlCTAlloc",
        "PtlPut",             "PtlGet",
        "PtlAtomic",          "PtlFetchAtomic",
        "PtlSwap",            "PtlTriggeredPut",
        "PtlTriggeredGet",    "PtlTriggeredAtomic",
        "PtlTriggeredSwap",   "PtlTriggeredFetchAtomic",
        "PtlTriggeredCTSet",  "PtlTriggeredCTInc",
        "PtlTriggeredLEAppend", "PtlTriggeredMEAppend",
        "PtlTriggeredLEUnlink", "PtlTriggeredMEUnlink",
    };

    for (size_t i = 0; i < sizeof (those) / sizeof (*those); i++)
        if (strcmp (name, those[i]) == 0)
            return true;
    return false;
}

static void check (const struct call *call)
{
    struct given given;
    ptl_handle_ni_t ni;
    int rc, again;

    CHECK (PtlInit () == PTL_OK);
    ni = call_interface (NI_OPTIONS);
    call_make (ni, &given);
    CHECK (PtlStartBundle (ni) == PTL_OK); /* PtlEndBundle ends it */
    is_out = true;
    rc = call->run (&given);
    is_out = false;
    again = rc == PTL_NO_SPACE ? call->run (&given) : PTL_OK;
    PtlFini ();
    if (rc == PTL_NO_SPACE ? needs_memory (call->name) && again == PTL_OK
                           : !needs_memory (call->name))
        return;
    fprintf (stderr, "%s: %d, then %d\n", call->name, rc, again);
    exit (1);
}

/* The first interface of a process. */
static void check_interface (void)
{
    ptl_handle_ni_t ni;
    int rc;

    CHECK (PtlInit () == PTL_OK);
    is_out = true;
    rc = PtlNIInit (PTL_IFACE_DEFAULT, NI_OPTIONS, PTL_PID_ANY, NULL, NULL,
                    &ni);
    is_out = false;
    CHECK (rc == PTL_NO_SPACE);
    CHECK (PtlNIInit (PTL_IFACE_DEFAULT, NI_OPTIONS, PTL_PID_ANY, NULL, NULL,
                      &ni)
           == PTL_OK);
    PtlFini ();
}

/* With flow control a queue has room for the event that turns it off. */
static void check_flow_control (void)
{
    struct given given;
    ptl_pt_index_t index;
    ptl_handle_ni_t ni;

    CHECK (PtlInit () == PTL_OK);
    ni = call_interface (NI_OPTIONS);
    call_make (ni, &given);
    is_out = true;
    CHECK (PtlPTAlloc (ni, PTL_PT_FLOWCTRL, given.handles[EQ], PTL_PT_ANY,
                       &index)
           == PTL_NO_SPACE);
    is_out = false;
    CHECK (PtlPTAlloc (ni, PTL_PT_FLOWCTRL, given.handles[EQ], PTL_PT_ANY,
                       &index)
           == PTL_OK);
    CHECK (index == given.index + 1); /* nothing was taken */
    CHECK (PtlPTFree (ni, index) == PTL_OK);
    is_out = true; /* the room is still there, and free */
    CHECK (PtlPTAlloc (ni, PTL_PT_FLOWCTRL, given.handles[EQ], PTL_PT_ANY,
                       &index)
           == PTL_OK);
    is_out = false;
    PtlFini ();
}

int main (void)
{
    setenv ("PTL_PROGRESS", "none", 1); /* nobody else allocates */
    check_interface ();
    check_flow_control ();
    for (int i = 0; i < CALLS; i++)
        if (call_is_valid (&calls[i]))
            check (&calls[i]);
    return 0;
}
