#include "ptl_me.h"

#include <stdlib.h>
#include <string.h>

#include "ptl_ct.h"
#include "ptl_end.h"
#include "ptl_handle.h"
#include "ptl_map.h"
#include "ptl_ni.h"
#include "ptl_unexpected.h"

#define LE_OPTIONS                                                      \
    (PTL_IOVEC | PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_USE_ONCE        \
     | PTL_LE_ACK_DISABLE | PTL_LE_EVENT_COMM_DISABLE                   \
     | PTL_LE_EVENT_FLOWCTRL_DISABLE | PTL_LE_EVENT_SUCCESS_DISABLE     \
     | PTL_LE_EVENT_OVER_DISABLE | PTL_LE_EVENT_LINK_DISABLE            \
     | PTL_LE_EVENT_UNLINK_DISABLE | PTL_LE_EVENT_CT_COMM               \
     | PTL_LE_EVENT_CT_OVERFLOW | PTL_LE_EVENT_CT_BYTES                 \
     | PTL_LE_UNEXPECTED_HDR_DISABLE | PTL_LE_IS_ACCESSIBLE)
#define ME_OPTIONS                                                      \
    (LE_OPTIONS | PTL_ME_MANAGE_LOCAL | PTL_ME_NO_TRUNCATE              \
     | PTL_ME_MAY_ALIGN | PTL_ME_LOCAL_INC_UH_RLENGTH)

/* ---- making ---- */

static bool is_valid (const struct ptl_ni *ni, const ptl_me_t *me)
{
    bool is_matching = ptl_ni_is_matching (ni);

    if (me->options & ~(is_matching ? ME_OPTIONS : LE_OPTIONS))
        return false;
    if (is_matching && ptl_ni_is_logical (ni) && ni->map)
        return me->match_id.rank == PTL_RANK_ANY
            || me->match_id.rank < ni->map->size;
    return true;
}

static struct ptl_me *take_memory (struct ptl_ni *ni)
{
    struct ptl_node *node = ptl_list_pop (&ni->spare_mes);

    return node ? ptl_entry (node, struct ptl_me, all)
                : malloc (sizeof (struct ptl_me));
}

static int fill (struct ptl_me *new, struct ptl_ni *ni, unsigned index,
                 const ptl_me_t *me, struct ptl_ct *ct, void *user_ptr)
{
    int rc;

    memset (new, 0, sizeof (*new));
    rc = ptl_mem_init (&new->mem, me->start, me->length, me->options,
                       ni->limits.max_iovecs);
    if (rc != PTL_OK) {
        ptl_list_append (&ni->spare_mes, &new->all);
        return rc;
    }
    new->ni = ni;
    new->me = *me;
    new->is_probed = (ni->limits.features & PTL_TARGET_BIND_INACCESSIBLE)
        && !(me->options & PTL_ME_IS_ACCESSIBLE);
    new->pt_index = index;
    new->user_ptr = user_ptr;
    ptl_list_init (&new->work.node);
    ptl_list_init (&new->node);
    ptl_list_append (&ni->mes, &new->all);
    ni->pt[index].users++;
    if ((new->ct = ct))
        ct->users++;
    return PTL_OK;
}

static int make (struct ptl_ni *ni, unsigned index, const ptl_me_t *me,
                 struct ptl_ct *ct, void *user_ptr, struct ptl_me **mep)
{
    struct ptl_me *new;
    int rc;

    if (!ptl_ni_pt (ni, index) || !is_valid (ni, me))
        return PTL_ARG_INVALID;
    if (!(new = take_memory (ni)))
        return PTL_NO_SPACE;
    if ((rc = fill (new, ni, index, me, ct, user_ptr)) == PTL_OK)
        *mep = new;
    return rc;
}

int ptl_me_alloc (struct ptl_ni *ni, unsigned index, const ptl_me_t *me,
                  struct ptl_ct *ct, ptl_list_t list, void *user_ptr,
                  struct ptl_me **mep)
{
    int rc;

    if ((unsigned)list > PTL_OVERFLOW_LIST)
        return PTL_ARG_INVALID;
    if (ni->n_entries >= ni->limits.max_entries)
        return ptl_ni_pt (ni, index) && is_valid (ni, me) ? PTL_NO_SPACE
                                                          : PTL_ARG_INVALID;
    if ((rc = make (ni, index, me, ct, user_ptr, mep)) != PTL_OK)
        return rc;
    (*mep)->list = list;
    ni->n_entries++;
    return PTL_OK;
}

/* ---- events ---- */

static void post (struct ptl_me *me, uint32_t type)
{
    struct ptlx_event event = {
        .type = type,
        .user_ptr = me->user_ptr,
        .start = me->me.start,
        .pt_index = me->pt_index,
        .list = me->list,
        .match_bits = me->me.match_bits,
    };
    unsigned disabled = type == PTL_EVENT_LINK ? PTL_ME_EVENT_LINK_DISABLE
                                               : PTL_ME_EVENT_UNLINK_DISABLE;

    if (!me->owner && !(me->me.options & disabled))
        ptl_pt_post (me->ni, me->pt_index, &event);
}

void ptl_me_count (struct ptl_me *me, unsigned option, int fail,
                   uint64_t mlength)
{
    bool by_bytes = me->me.options & PTL_ME_EVENT_CT_BYTES;

    if (!me->ct || (me->me.options & option) != option)
        return;
    if (fail == PTL_NI_OK)
        ptl_ct_add (me->ct, by_bytes ? mlength : 1, 0);
    else
        ptl_ct_add (me->ct, 0, 1);
}

/* ---- lists ---- */

static struct ptl_pt *table_of (const struct ptl_me *me)
{
    return &me->ni->pt[me->pt_index];
}

static void put_into_list (struct ptl_me *me)
{
    struct ptl_pt *pt = table_of (me);

    me->is_linked = true;
    pt->n_linked[me->list]++;
    ptl_list_append (me->list == PTL_PRIORITY_LIST ? &pt->priority
                                                   : &pt->overflow,
                     &me->node);
}

static void take_from_list (struct ptl_me *me)
{
    if (!me->is_linked)
        return;
    me->is_linked = false;
    table_of (me)->n_linked[me->list]--;
    ptl_list_remove (&me->node);
}

static bool is_list_full (const struct ptl_me *me)
{
    return table_of (me)->n_linked[me->list] >= me->ni->limits.max_list_size;
}

static void link_now (struct ptl_me *me)
{
    bool is_spent = false;

    me->busy++; /* so that no header that it takes frees it */
    if (me->list == PTL_PRIORITY_LIST)
        is_spent = ptl_unexpected_take (me);
    if (!is_spent) {
        put_into_list (me);
        post (me, PTL_EVENT_LINK);
    }
    ptl_me_end (me);
}

int ptl_me_link (struct ptl_me *me)
{
    if (is_list_full (me)
        && !(me->list == PTL_PRIORITY_LIST
             && (me->me.options & PTL_ME_USE_ONCE)
             && ptl_unexpected_has (me)))
        return PTL_LIST_TOO_LONG;
    link_now (me);
    return PTL_OK;
}

int ptl_me_append (struct ptl_ni *ni, unsigned index, const ptl_me_t *me,
                   struct ptl_ct *ct, ptl_list_t list, void *user_ptr,
                   struct ptl_me **mep)
{
    int rc = ptl_me_alloc (ni, index, me, ct, list, user_ptr, mep);

    if (rc == PTL_OK)
        put_into_list (*mep);
    return rc;
}

/* ---- end ---- */

static void give_memory_back (struct ptl_me *me)
{
    ptl_list_remove (&me->all);
    ptl_list_append (&me->ni->spare_mes, &me->all);
}

static void is_waiting_no_more (struct ptl_me *me)
{
    if (!me->is_waiting)
        return;
    me->is_waiting = false;
    table_of (me)->n_linked[me->list]--;
    ptl_ct_withdraw (&me->work);
}

void ptl_me_free (struct ptl_me *me)
{
    is_waiting_no_more (me);
    take_from_list (me);
    if (me->ct)
        me->ct->users--;
    ptl_handle_forget (me->handle);
    if (!me->is_search)
        me->ni->n_entries--;
    table_of (me)->users--;
    ptl_mem_free (&me->mem);
    give_memory_back (me);
}

void ptl_me_free_spare (struct ptl_ni *ni)
{
    struct ptl_node *node;

    while ((node = ptl_list_pop (&ni->spare_mes)))
        free (ptl_entry (node, struct ptl_me, all));
}

void ptl_me_release (struct ptl_me *me)
{
    if (me->busy > 0 || me->n_headers > 0 || me->is_linked || me->is_waiting)
        return;
    if (me->is_search)
        ptl_unexpected_searched (me);
    else if (!me->is_silent)
        post (me, me->list == PTL_OVERFLOW_LIST ? PTL_EVENT_AUTO_FREE
                                                : PTL_EVENT_AUTO_UNLINK);
    ptl_me_free (me);
}

int ptl_me_unlink (struct ptl_me *me)
{
    if (me->busy > 0 || me->n_headers > 0
        || (!me->is_linked && !me->is_waiting))
        return PTL_IN_USE;
    ptl_me_free (me);
    return PTL_OK;
}

/* ---- triggered ---- */

static void run_link (struct ptl_work *work)
{
    struct ptl_me *me = (struct ptl_me *)work;

    is_waiting_no_more (me);
    link_now (me);
}

static void discard_link (struct ptl_work *work)
{
    ptl_me_free ((struct ptl_me *)work);
}

int ptl_me_link_later (struct ptl_me *me, struct ptl_ct *trigger,
                       uint64_t threshold)
{
    int rc;

    if (is_list_full (me))
        return PTL_LIST_TOO_LONG;
    me->work.run = run_link;
    me->work.discard = discard_link;
    me->work.threshold = threshold;
    if ((rc = ptl_ct_trigger (trigger, &me->work)) == PTL_OK) {
        me->is_waiting = true;
        table_of (me)->n_linked[me->list]++; /* its place is kept */
    }
    return rc;
}

struct unlink {
    struct ptl_work work; /* first */
    uint32_t handle;
};

static void discard_unlink (struct ptl_work *work)
{
    free ((struct unlink *)work);
}

static void run_unlink (struct ptl_work *work)
{
    uint32_t handle = ((struct unlink *)work)->handle;
    struct ptl_me *me;

    discard_unlink (work);
    if (ptl_handle_find (handle, PTL_HANDLE_ME, &me) != PTL_OK)
        return;
    is_waiting_no_more (me);
    take_from_list (me);
    me->is_silent = true;
    ptl_me_release (me);
}

int ptl_me_unlink_later (struct ptl_me *me, struct ptl_ct *trigger,
                         uint64_t threshold)
{
    struct unlink *unlink = calloc (1, sizeof (*unlink));
    int rc;

    if (!unlink)
        return PTL_NO_SPACE;
    unlink->handle = me->handle;
    unlink->work.run = run_unlink;
    unlink->work.discard = discard_unlink;
    unlink->work.threshold = threshold;
    ptl_list_init (&unlink->work.node);
    if ((rc = ptl_ct_trigger (trigger, &unlink->work)) != PTL_OK)
        free (unlink);
    return rc;
}

/* ---- search ---- */

int ptl_me_search (struct ptl_ni *ni, unsigned index, const ptl_me_t *me,
                   struct ptl_ct *ct, ptl_search_op_t operation,
                   void *user_ptr)
{
    struct ptl_me *search;
    int rc;

    if ((unsigned)operation > PTL_SEARCH_DELETE)
        return PTL_ARG_INVALID;
    if ((rc = make (ni, index, me, ct, user_ptr, &search)) != PTL_OK)
        return rc;
    search->is_search = true;
    search->list = PTL_PRIORITY_LIST;
    search->busy++;
    if (operation == PTL_SEARCH_ONLY)
        ptl_unexpected_look (search);
    else
        ptl_unexpected_take (search);
    ptl_me_end (search);
    return PTL_OK;
}

/* ---- use ---- */

bool ptl_me_is_last (const struct ptl_me *me, uint64_t taken)
{
    uint64_t room = me->mem.length - me->used;

    if (me->me.options & PTL_ME_USE_ONCE)
        return true;
    if (!(me->me.options & PTL_ME_MANAGE_LOCAL) || me->me.min_free == 0)
        return false;
    return (taken < room ? room - taken : 0) < me->me.min_free;
}

bool ptl_me_begin (struct ptl_me *me, uint64_t taken)
{
    bool is_last = ptl_me_is_last (me, taken);
    uint64_t room = me->mem.length - me->used;

    me->busy++;
    if (me->me.options & PTL_ME_MANAGE_LOCAL)
        me->used += taken < room ? taken : room;
    if (is_last)
        take_from_list (me);
    return is_last;
}

void ptl_me_used_up (struct ptl_me *me)
{
    if (me->list == PTL_OVERFLOW_LIST && !me->is_silent)
        post (me, PTL_EVENT_AUTO_UNLINK);
}

void ptl_me_end (struct ptl_me *me)
{
    me->busy--;
    ptl_me_release (me);
}
