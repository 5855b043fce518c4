#include "ptl_me.h"

#include <stdlib.h>

#include "ptl_ct.h"
#include "ptl_eq.h"
#include "ptl_ni.h"
#include "ptl_process.h"

#define ME_OPTIONS                                                      \
    (PTL_IOVEC | PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_USE_ONCE        \
     | PTL_ME_ACK_DISABLE | PTL_ME_EVENT_COMM_DISABLE                   \
     | PTL_ME_EVENT_FLOWCTRL_DISABLE | PTL_ME_EVENT_SUCCESS_DISABLE     \
     | PTL_ME_EVENT_OVER_DISABLE | PTL_ME_EVENT_LINK_DISABLE            \
     | PTL_ME_EVENT_UNLINK_DISABLE | PTL_ME_EVENT_CT_COMM               \
     | PTL_ME_EVENT_CT_OVERFLOW | PTL_ME_EVENT_CT_BYTES                 \
     | PTL_ME_UNEXPECTED_HDR_DISABLE | PTL_ME_IS_ACCESSIBLE             \
     | PTL_ME_MANAGE_LOCAL | PTL_ME_NO_TRUNCATE | PTL_ME_MAY_ALIGN      \
     | PTL_ME_LOCAL_INC_UH_RLENGTH)

/* Overflow entries keep no headers yet: the option that says so is needed. */
static bool is_valid (const ptl_me_t *me, ptl_list_t list)
{
    if (me->options & ~ME_OPTIONS)
        return false;
    if (!me->start && me->length > 0)
        return false;
    if (list == PTL_OVERFLOW_LIST)
        return me->options & PTL_ME_UNEXPECTED_HDR_DISABLE;
    return list == PTL_PRIORITY_LIST;
}

static void post (struct ptl_me *me, uint32_t type)
{
    struct ptl_eq *eq = me->ni->pt[me->pt_index].eq;
    struct ptlx_event event = {
        .type = type,
        .user_ptr = me->user_ptr,
        .start = me->me.start,
        .pt_index = me->pt_index,
        .list = me->list,
        .match_bits = me->me.match_bits,
    };

    if (eq && !me->owner)
        ptl_eq_post_surely (eq, &event);
}

int ptl_me_append (struct ptl_ni *ni, unsigned index, const ptl_me_t *me,
                   struct ptl_ct *ct, ptl_list_t list, void *user_ptr,
                   struct ptl_me **mep)
{
    struct ptl_me *new;
    int rc;

    if (!ptl_ni_pt (ni, index) || !is_valid (me, list))
        return PTL_ARG_INVALID;
    if (ni->n_entries >= ni->limits.max_entries
        || !(new = calloc (1, sizeof (*new))))
        return PTL_NO_SPACE;
    new->ni = ni;
    new->me = *me;
    rc = ptl_mem_init (&new->mem, me->start, me->length, me->options,
                       ni->limits.max_iovecs);
    if (rc != PTL_OK) {
        free (new);
        return rc;
    }
    ni->n_entries++;
    new->list = list;
    new->pt_index = index;
    new->user_ptr = user_ptr;
    new->is_linked = true;
    if ((new->ct = ct))
        ct->users++;
    ptl_list_append (list == PTL_PRIORITY_LIST ? &ni->pt[index].priority
                                               : &ni->pt[index].overflow,
                     &new->node);
    ptl_list_append (&ni->mes, &new->all);
    if (!(me->options & PTL_ME_EVENT_LINK_DISABLE))
        post (new, PTL_EVENT_LINK);
    *mep = new;
    return PTL_OK;
}

void ptl_me_free (struct ptl_me *me)
{
    ptl_list_remove (&me->node);
    ptl_list_remove (&me->all);
    if (me->ct)
        me->ct->users--;
    ptl_handle_forget (me->handle);
    me->ni->n_entries--;
    ptl_mem_free (&me->mem);
    free (me);
}

int ptl_me_unlink (struct ptl_me *me)
{
    if (me->busy > 0 || !me->is_linked)
        return PTL_IN_USE;
    ptl_me_free (me);
    return PTL_OK;
}

static bool id_matches (const ptl_process_t *wanted,
                        const struct ptl_who *who)
{
    return (wanted->phys.nid == PTL_NID_ANY || wanted->phys.nid == who->nid)
        && (wanted->phys.pid == PTL_PID_ANY || wanted->phys.pid == who->pid);
}

bool ptl_me_matches (const struct ptl_me *me, const struct ptl_who *who,
                     uint64_t match_bits, uint64_t request_offset,
                     uint64_t length, uint64_t *offset, uint64_t *mlength)
{
    bool is_local = me->me.options & PTL_ME_MANAGE_LOCAL;
    uint64_t room;

    if (((match_bits ^ me->me.match_bits) & ~me->me.ignore_bits)
        || !id_matches (&me->me.match_id, who))
        return false;
    *offset = is_local ? me->used : request_offset;
    if (*offset > me->mem.length)
        *offset = me->mem.length;
    room = me->mem.length - *offset;
    if (length > room && (me->me.options & PTL_ME_NO_TRUNCATE))
        return false;
    *mlength = length < room ? length : room;
    return true;
}

/* USE_ONCE and min_free. */
static bool is_spent (const struct ptl_me *me)
{
    if (me->me.options & PTL_ME_USE_ONCE)
        return true;
    return (me->me.options & PTL_ME_MANAGE_LOCAL) && me->me.min_free > 0
        && me->mem.length - me->used < me->me.min_free;
}

void ptl_me_begin (struct ptl_me *me, uint64_t mlength)
{
    me->busy++;
    if (me->me.options & PTL_ME_MANAGE_LOCAL)
        me->used += mlength;
    if (!is_spent (me))
        return;
    ptl_list_remove (&me->node);
    me->is_linked = false;
    if (me->list == PTL_OVERFLOW_LIST
        && !(me->me.options & PTL_ME_EVENT_UNLINK_DISABLE))
        post (me, PTL_EVENT_AUTO_UNLINK);
}

void ptl_me_end (struct ptl_me *me)
{
    me->busy--;
    if (me->busy > 0 || me->is_linked)
        return;
    if (!(me->me.options & PTL_ME_EVENT_UNLINK_DISABLE))
        post (me, me->list == PTL_OVERFLOW_LIST ? PTL_EVENT_AUTO_FREE
                                                : PTL_EVENT_AUTO_UNLINK);
    ptl_me_free (me);
}
