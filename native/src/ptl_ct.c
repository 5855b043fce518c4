#include "ptl_ct.h"

#include <stdlib.h>

#include "ptl_ni.h"
#include "ptl_op.h"

int ptl_ct_alloc (struct ptl_ni *ni, struct ptl_ct **ctp)
{
    struct ptl_ct *ct = calloc (1, sizeof (*ct));

    if (!ct)
        return PTL_NO_SPACE;
    ct->ni = ni;
    ptl_list_init (&ct->triggers);
    ptl_list_append (&ni->cts, &ct->node);
    *ctp = ct;
    return PTL_OK;
}

void ptl_ct_free (struct ptl_ct *ct)
{
    ptl_ct_cancel (ct);
    ptl_list_remove (&ct->node);
    free (ct);
}

static void release_due (struct ptl_ct *ct)
{
    struct ptl_op *op;

    while (!ptl_list_empty (&ct->triggers)) {
        op = ptl_entry (ct->triggers.next, struct ptl_op, work.node);
        if (op->threshold > ct->value.success + ct->value.failure)
            return;
        ptl_list_remove (&op->work.node);
        ptl_ni_work (ct->ni, &op->work);
    }
}

void ptl_ct_add (struct ptl_ct *ct, uint64_t success, uint64_t failure)
{
    ct->value.success += success;
    ct->value.failure += failure;
    release_due (ct);
}

void ptl_ct_set (struct ptl_ct *ct, ptl_ct_event_t value)
{
    ct->value = value;
    release_due (ct);
}

void ptl_ct_trigger (struct ptl_ct *ct, struct ptl_op *op)
{
    struct ptl_node *place = &ct->triggers;

    /* From the tail: most are registered in ascending order. */
    while (place->prev != &ct->triggers
           && ptl_entry (place->prev, struct ptl_op, work.node)->threshold
                  > op->threshold)
        place = place->prev;
    ptl_list_insert (place, &op->work.node);
    release_due (ct);
}

void ptl_ct_cancel (struct ptl_ct *ct)
{
    struct ptl_node *node;

    while ((node = ptl_list_pop (&ct->triggers)))
        ptl_op_discard (ptl_entry (node, struct ptl_op, work.node));
}
