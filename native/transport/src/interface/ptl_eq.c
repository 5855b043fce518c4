#include "ptl_eq.h"

#include <stdlib.h>
#include <string.h>

#include "ptl_end.h"
#include "ptl_handle.h"
#include "ptl_md.h"
#include "ptl_ni.h"

int ptl_eq_alloc (struct ptl_ni *ni, size_t count, struct ptl_eq **eqp)
{
    struct ptl_eq *eq;

    if (count == 0 || count > 1u << 20)
        return PTL_ARG_INVALID;
    if (ni->n_eqs >= ni->limits.max_eqs || !(eq = calloc (1, sizeof (*eq))))
        return PTL_NO_SPACE;
    if (!(eq->slots = calloc (count, sizeof (*eq->slots)))) {
        free (eq);
        return PTL_NO_SPACE;
    }
    eq->ni = ni;
    eq->count = eq->size = count;
    ptl_list_append (&ni->eqs, &eq->node);
    ni->n_eqs++;
    *eqp = eq;
    return PTL_OK;
}

static void drop_oldest (struct ptl_eq *eq)
{
    ptl_end_was_read (eq->ni->end, &eq->slots[eq->head]);
    eq->head = (eq->head + 1) % eq->size;
    eq->used--;
    eq->ni->end->unread--;
    eq->dropped = true;
}

static void forget_table (struct ptl_eq *eq)
{
    struct ptl_ni *ni = eq->ni;

    for (int i = 0; i <= ni->limits.max_pt_index; i++)
        if (ni->pt[i].eq == eq)
            ni->pt[i].eq = NULL;
}

static void forget_descriptors (struct ptl_eq *eq)
{
    struct ptl_ni *ni = eq->ni;
    struct ptl_md *md;

    for (struct ptl_node *n = ni->mds.next; n != &ni->mds; n = n->next) {
        md = ptl_entry (n, struct ptl_md, node);
        if (md->eq == eq)
            md->eq = NULL;
    }
}

void ptl_eq_free (struct ptl_eq *eq)
{
    if (eq->users > 0) {
        forget_table (eq);
        forget_descriptors (eq);
    }
    if (eq->ni->end->notify == eq)
        eq->ni->end->notify = NULL;
    while (eq->used > 0)
        drop_oldest (eq);
    ptl_handle_forget (eq->handle);
    eq->ni->n_eqs--;
    ptl_list_remove (&eq->node);
    free (eq->slots);
    free (eq);
}

static void put (struct ptl_eq *eq, const struct ptlx_event *event)
{
    eq->slots[(eq->head + eq->used) % eq->size] = *event;
    eq->used++;
    eq->ni->end->unread++;
    eq->ni->end->changes++;
}

void ptl_eq_post (struct ptl_eq *eq, const struct ptlx_event *event)
{
    if (eq->used >= eq->count)
        drop_oldest (eq);
    put (eq, event);
}

static bool grow (struct ptl_eq *eq, size_t size)
{
    struct ptlx_event *slots = calloc (size, sizeof (*slots));

    if (!slots)
        return false;
    for (size_t i = 0; i < eq->used; i++)
        slots[i] = eq->slots[(eq->head + i) % eq->size];
    free (eq->slots);
    eq->slots = slots;
    eq->size = size;
    eq->head = 0;
    return true;
}

bool ptl_eq_reserve (struct ptl_eq *eq)
{
    if (eq->size < eq->count + eq->reserved + 1
        && !grow (eq, eq->count + eq->reserved + 1))
        return false;
    eq->reserved++;
    return true;
}

void ptl_eq_unreserve (struct ptl_eq *eq)
{
    eq->reserved--;
}

void ptl_eq_post_surely (struct ptl_eq *eq, const struct ptlx_event *event)
{
    if (eq->used == eq->size && !grow (eq, eq->size * 2))
        drop_oldest (eq);
    put (eq, event);
}

int ptl_eq_get (struct ptl_eq *eq, struct ptlx_event *event)
{
    int rc = eq->dropped ? PTL_EQ_DROPPED : PTL_OK;

    if (eq->used == 0)
        return PTL_EQ_EMPTY;
    *event = eq->slots[eq->head];
    eq->head = (eq->head + 1) % eq->size;
    eq->used--;
    eq->ni->end->unread--;
    eq->dropped = false;
    ptl_end_was_read (eq->ni->end, event);
    return rc;
}

bool ptl_eq_next_is (const struct ptl_eq *eq, uint32_t type)
{
    return eq->used > 0 && eq->slots[eq->head].type == type;
}
