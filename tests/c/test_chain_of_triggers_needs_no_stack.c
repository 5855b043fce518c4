/* Each put to ourselves counts on the counter that releases the next. */
#include <sys/resource.h>

#include "harness.h"

#define LENGTH 20000

int main (void)
{
    struct end ends[1], *a = &ends[0];
    struct rlimit limit = { 1 << 20, 1 << 20 };
    char source[] = { 'c' }, target[1];
    ptl_ct_event_t one = { 1, 0 }, value;
    ptl_handle_ct_t ct;
    ptl_handle_md_t md;
    ptl_pt_index_t index;

    setrlimit (RLIMIT_STACK, &limit);
    end_open (a, 4);
    CHECK (PtlCTAlloc (a->ni, &ct) == PTL_OK);
    index = open_table (a, 0);
    open_entry (a, index, target, 1,
                PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_COMM_DISABLE, ct);
    md = bind_memory (a, source, 1, PTL_MD_EVENT_SUCCESS_DISABLE,
                      PTL_CT_NONE);
    for (uint64_t i = 1; i <= LENGTH; i++)
        CHECK (PtlTriggeredPut (md, 0, 1, PTL_NO_ACK_REQ, a->id, index, 0, 0,
                                NULL, i, ct, i)
               == PTL_OK);
    CHECK (PtlCTInc (ct, one) == PTL_OK);
    CHECK (PtlCTGet (ct, &value) == PTL_OK);
    CHECK (value.success == LENGTH + 1 && value.failure == 0);
    end_close (a);
    return 0;
}
