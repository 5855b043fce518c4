#include "ptl_unexpected.h"

#include <stdlib.h>

#include "ptl_match.h"
#include "ptl_me.h"
#include "ptl_ni.h"

/* ---- leaving ---- */

struct ptl_header *ptl_unexpected_reserve (struct ptl_ni *ni)
{
    struct ptl_node *node;
    struct ptl_header *header;

    if (ni->n_unexpected >= ni->limits.max_unexpected_headers)
        return NULL;
    node = ptl_list_pop (&ni->spare_headers);
    header = node ? ptl_entry (node, struct ptl_header, node)
                  : malloc (sizeof (*header));
    if (header)
        ni->n_unexpected++;
    return header;
}

static uint32_t overflow_type (uint32_t type)
{
    switch (type) {
    case PTL_EVENT_GET:
        return PTL_EVENT_GET_OVERFLOW;
    case PTL_EVENT_ATOMIC:
        return PTL_EVENT_ATOMIC_OVERFLOW;
    case PTL_EVENT_FETCH_ATOMIC:
        return PTL_EVENT_FETCH_ATOMIC_OVERFLOW;
    default:
        return PTL_EVENT_PUT_OVERFLOW;
    }
}

void ptl_unexpected_leave (struct ptl_header *header, struct ptl_me *me,
                           const struct ptlx_event *event, unsigned needs)
{
    header->me = me;
    header->taker = NULL;
    header->needs = needs;
    header->is_landed = false;
    header->event = *event;
    header->event.type = overflow_type (event->type);
    me->n_headers++;
    ptl_list_append (&me->ni->pt[me->pt_index].unexpected, &header->node);
}

static void forget (struct ptl_header *header)
{
    struct ptl_ni *ni = header->me->ni;

    ptl_list_remove (&header->node);
    ptl_list_append (&ni->spare_headers, &header->node);
    ni->n_unexpected--;
}

/* ---- taking ---- */

/* A counter of a search counts nothing else. */
static void count (struct ptl_me *me, int fail, uint64_t mlength)
{
    ptl_me_count (me, me->is_search ? 0 : PTL_ME_EVENT_CT_OVERFLOW, fail,
                  mlength);
}

static void post (struct ptl_me *me, const struct ptlx_event *event)
{
    if (!(me->me.options & PTL_ME_EVENT_OVER_DISABLE)
        && !(event->ni_fail == PTL_NI_OK
             && (me->me.options & PTL_ME_EVENT_SUCCESS_DISABLE)))
        ptl_pt_post (me->ni, me->pt_index, event);
    count (me, (int)event->ni_fail, event->mlength);
}

/* It has landed and been taken: post the event; the memory is free. */
static void finish (struct ptl_header *header)
{
    struct ptl_me *me = header->me, *taker = header->taker;

    header->event.user_ptr = taker->user_ptr;
    post (taker, &header->event);
    forget (header);
    ptl_me_end (taker);
    me->n_headers--;
    ptl_me_release (me);
}

void ptl_unexpected_landed (struct ptl_header *header, int fail,
                            uint64_t mlength)
{
    header->is_landed = true;
    header->event.ni_fail = (uint32_t)fail;
    header->event.mlength = mlength;
    if (header->taker)
        finish (header);
}

static bool matches (const struct ptl_me *me, const struct ptl_header *header,
                     int *fail)
{
    const struct ptlx_event *event = &header->event;
    struct ptl_request request = {
        .nid = event->nid,
        .pid = event->pid,
        .uid = event->uid,
        .needs = header->needs,
        .match_bits = event->match_bits,
        .offset = event->remote_offset,
        .length = event->rlength,
    };
    uint64_t offset, mlength;

    if (!ptl_match_takes (me, &request, &offset, &mlength))
        return false;
    *fail = ptl_match_permits (me, &request);
    return true;
}

/* The next header, from `node` on, that `me` matches and is permitted to take.
 * One that it is not permitted to take stays, and is counted as a violation for
 * an append. */
static struct ptl_header *next_match (struct ptl_me *me,
                                      struct ptl_node *node, bool is_counted)
{
    struct ptl_node *list = &me->ni->pt[me->pt_index].unexpected;
    struct ptl_header *header;
    int fail;

    for (; node != list; node = node->next) {
        header = ptl_entry (node, struct ptl_header, node);
        if (!matches (me, header, &fail))
            continue;
        if (fail == PTL_NI_OK)
            return header;
        if (is_counted)
            ptl_pt_count_refusal (me->ni, fail);
    }
    return NULL;
}

static struct ptl_header *first_match (struct ptl_me *me, bool is_counted)
{
    return next_match (me, me->ni->pt[me->pt_index].unexpected.next,
                       is_counted);
}

bool ptl_unexpected_has (struct ptl_me *me)
{
    return first_match (me, false) != NULL;
}

/* The bytes that a header takes of an entry that manages its own offset. */
static uint64_t share (const struct ptl_me *me,
                       const struct ptl_header *header)
{
    return me->me.options & PTL_ME_LOCAL_INC_UH_RLENGTH
        ? header->event.rlength : 0;
}

bool ptl_unexpected_take (struct ptl_me *me)
{
    struct ptl_header *header = first_match (me, !me->is_search);
    bool is_last = false;

    while (header) {
        struct ptl_node *next = header->node.next;
        uint64_t taken = share (me, header);

        is_last = (taken > 0 || (me->me.options & PTL_ME_USE_ONCE))
            && ptl_me_is_last (me, taken);
        (void)ptl_me_begin (me, taken);
        me->found++;
        header->taker = me;
        ptl_list_remove (&header->node);
        ptl_list_append (&me->ni->pt[me->pt_index].taken, &header->node);
        if (header->is_landed)
            finish (header);
        if (is_last)
            break;
        header = next_match (me, next, !me->is_search);
    }
    return is_last;
}

/* ---- searching ---- */

void ptl_unexpected_look (struct ptl_me *me)
{
    struct ptl_header *header = first_match (me, false);
    struct ptlx_event event;

    while (header) {
        me->found++;
        event = header->event;
        event.type = PTL_EVENT_SEARCH;
        event.user_ptr = me->user_ptr;
        event.ni_fail = PTL_NI_OK;
        post (me, &event);
        if (me->me.options & PTL_ME_USE_ONCE)
            break;
        header = next_match (me, header->node.next, false);
    }
}

void ptl_unexpected_searched (struct ptl_me *me)
{
    struct ptlx_event event = {
        .type = PTL_EVENT_SEARCH,
        .ni_fail = PTL_NI_NO_MATCH,
        .user_ptr = me->user_ptr,
        .pt_index = me->pt_index,
        .list = PTL_OVERFLOW_LIST,
    };

    if (me->found == 0)
        post (me, &event);
    else if (!(me->me.options & PTL_ME_USE_ONCE))
        count (me, PTL_NI_NO_MATCH, 0);
}

/* ---- end ---- */

static void free_list (struct ptl_node *list)
{
    struct ptl_node *node;

    while ((node = ptl_list_pop (list)))
        free (ptl_entry (node, struct ptl_header, node));
}

void ptl_unexpected_free_all (struct ptl_ni *ni)
{
    for (int i = 0; i <= ni->limits.max_pt_index; i++) {
        if (!ni->pt[i].is_allocated)
            continue;
        free_list (&ni->pt[i].unexpected);
        free_list (&ni->pt[i].taken);
    }
    free_list (&ni->spare_headers);
}
