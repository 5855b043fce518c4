#include "ptl_ct.h"

#include <stdlib.h>

#include "ptl_end.h"
#include "ptl_ni.h"
#include "ptl_op.h"
#include "ptl_process.h"

int ptl_ct_alloc (struct ptl_ni *ni, struct ptl_ct **ctp)
{
    struct ptl_ct *ct;

    if (ni->n_cts >= ni->limits.max_cts || !(ct = calloc (1, sizeof (*ct))))
        return PTL_NO_SPACE;
    ct->ni = ni;
    ptl_list_init (&ct->triggers);
    ptl_list_append (&ni->cts, &ct->node);
    ni->n_cts++;
    *ctp = ct;
    return PTL_OK;
}

void ptl_ct_free (struct ptl_ct *ct)
{
    ptl_ct_cancel (ct);
    ptl_handle_forget (ct->handle);
    ct->ni->n_cts--;
    ptl_list_remove (&ct->node);
    free (ct);
}

static void release_due (struct ptl_ct *ct)
{
    uint64_t reached = ct->value.success + ct->value.failure;
    struct ptl_work *work;

    while (!ptl_list_empty (&ct->triggers)) {
        work = ptl_entry (ct->triggers.next, struct ptl_work, node);
        if (work->threshold > reached)
            return;
        ptl_list_remove (&work->node);
        ptl_end_work (ct->ni->end, work);
    }
}

void ptl_ct_add (struct ptl_ct *ct, uint64_t success, uint64_t failure)
{
    ct->value.success += success;
    ct->value.failure += failure;
    ct->ni->end->changes++;
    release_due (ct);
}

void ptl_ct_set (struct ptl_ct *ct, ptl_ct_event_t value)
{
    ct->value = value;
    ct->ni->end->changes++;
    release_due (ct);
}

void ptl_ct_trigger (struct ptl_ct *ct, struct ptl_work *work)
{
    struct ptl_node *place = &ct->triggers;

    /* From the tail: most are registered in ascending order. */
    while (place->prev != &ct->triggers
           && ptl_entry (place->prev, struct ptl_work, node)->threshold
                  > work->threshold)
        place = place->prev;
    ptl_list_insert (place, &work->node);
    release_due (ct);
}

void ptl_ct_cancel (struct ptl_ct *ct)
{
    struct ptl_node *node;

    while ((node = ptl_list_pop (&ct->triggers)))
        ptl_work_discard (ptl_entry (node, struct ptl_work, node));
}
