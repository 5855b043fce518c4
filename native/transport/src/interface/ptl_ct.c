#include "ptl_ct.h"

#include <stdlib.h>

#include "ptl_end.h"
#include "ptl_handle.h"
#include "ptl_md.h"
#include "ptl_me.h"
#include "ptl_ni.h"
#include "ptl_op.h"

int ptl_ct_alloc (struct ptl_ni *ni, struct ptl_ct **ctp)
{
    struct ptl_ct *ct;

    if (ni->n_cts >= ni->limits.max_cts || !(ct = calloc (1, sizeof (*ct))))
        return PTL_NO_SPACE;
    ct->ni = ni;
    ptl_list_init (&ct->triggers);
    ptl_list_init (&ct->changes);
    ptl_list_append (&ni->cts, &ct->node);
    ni->n_cts++;
    *ctp = ct;
    return PTL_OK;
}

/* ---- changes by another counter ---- */

struct change {
    struct ptl_work work; /* first */
    struct ptl_node node; /* in ct->changes */
    struct ptl_ct *ct;
    ptl_ct_event_t value;
    bool is_set;
};

static void change_discard (struct ptl_work *work)
{
    struct change *change = (struct change *)work;

    ptl_list_remove (&work->node);
    ptl_list_remove (&change->node);
    free (change);
}

static void change_run (struct ptl_work *work)
{
    struct change *change = (struct change *)work;

    if (change->is_set)
        ptl_ct_set (change->ct, change->value);
    else
        ptl_ct_add (change->ct, change->value.success, change->value.failure);
    change_discard (work);
}

int ptl_ct_change (struct ptl_ct *ct, ptl_ct_event_t value, bool is_set,
                   struct ptl_ct *trigger, uint64_t threshold)
{
    struct change *change = calloc (1, sizeof (*change));
    int rc;

    if (!change)
        return PTL_NO_SPACE;
    ptl_list_init (&change->work.node);
    change->work.run = change_run;
    change->work.discard = change_discard;
    change->work.threshold = threshold;
    change->ct = ct;
    change->value = value;
    change->is_set = is_set;
    ptl_list_append (&ct->changes, &change->node);
    if ((rc = ptl_ct_trigger (trigger, &change->work)) != PTL_OK)
        change_discard (&change->work);
    return rc;
}

static void forget_changes (struct ptl_ct *ct)
{
    while (!ptl_list_empty (&ct->changes)) {
        struct change *change
            = ptl_entry (ct->changes.next, struct change, node);

        ptl_ct_withdraw (&change->work);
        change_discard (&change->work);
    }
}

/* ---- life ---- */

static void forget_descriptors (struct ptl_ct *ct)
{
    struct ptl_ni *ni = ct->ni;
    struct ptl_md *md;

    for (struct ptl_node *n = ni->mds.next; n != &ni->mds; n = n->next) {
        md = ptl_entry (n, struct ptl_md, node);
        if (md->ct == ct)
            md->ct = NULL;
    }
}

static void forget_entries (struct ptl_ct *ct)
{
    struct ptl_ni *ni = ct->ni;
    struct ptl_me *me;

    for (struct ptl_node *n = ni->mes.next; n != &ni->mes; n = n->next) {
        me = ptl_entry (n, struct ptl_me, all);
        if (me->ct == ct)
            me->ct = NULL;
    }
}

void ptl_ct_free (struct ptl_ct *ct)
{
    if (ct->users > 0) {
        forget_descriptors (ct);
        forget_entries (ct);
    }
    ptl_ct_cancel (ct);
    forget_changes (ct);
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
        ptl_ct_withdraw (work);
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

void ptl_ct_withdraw (struct ptl_work *work)
{
    ptl_list_remove (&work->node);
    if (work->counted)
        work->counted->n_triggered--;
    work->counted = NULL;
}

int ptl_ct_trigger (struct ptl_ct *ct, struct ptl_work *work)
{
    uint64_t reached = ct->value.success + ct->value.failure;
    struct ptl_node *place = &ct->triggers;

    if (work->threshold <= reached) {
        ptl_end_work (ct->ni->end, work);
        return PTL_OK;
    }
    if (ct->handle) {
        if (ct->ni->n_triggered >= ct->ni->limits.max_triggered_ops)
            return PTL_NO_SPACE;
        work->counted = ct->ni;
        ct->ni->n_triggered++;
    }
    /* Search from the tail: most are added in ascending order. */
    while (place->prev != &ct->triggers
           && ptl_entry (place->prev, struct ptl_work, node)->threshold
                  > work->threshold)
        place = place->prev;
    ptl_list_insert (place, &work->node);
    return PTL_OK;
}

void ptl_ct_cancel (struct ptl_ct *ct)
{
    struct ptl_work *work;

    while (!ptl_list_empty (&ct->triggers)) {
        work = ptl_entry (ct->triggers.next, struct ptl_work, node);
        ptl_ct_withdraw (work);
        ptl_work_discard (work);
    }
}
