#include "ptl_pt.h"

#include <string.h>

#include "ptl_ct.h"
#include "ptl_eq.h"
#include "ptl_me.h"
#include "ptl_end.h"
#include "ptl_ni.h"

#define PT_OPTIONS                                                      \
    (PTL_PT_ONLY_USE_ONCE | PTL_PT_ONLY_TRUNCATE | PTL_PT_FLOWCTRL      \
     | PTL_PT_ALLOC_DISABLED | PTL_PT_MATCH_UNORDERED)

static int find_free (const struct ptl_ni *ni, uint32_t wanted,
                      uint32_t *index)
{
    if (wanted != PTL_PT_ANY) {
        if (wanted > (uint32_t)ni->limits.max_pt_index)
            return PTL_ARG_INVALID;
        *index = wanted;
        return ni->pt[wanted].is_allocated ? PTL_PT_IN_USE : PTL_OK;
    }
    for (*index = 0; *index <= (uint32_t)ni->limits.max_pt_index; (*index)++)
        if (!ni->pt[*index].is_allocated)
            return PTL_OK;
    return PTL_PT_FULL;
}

int ptl_pt_alloc (struct ptl_ni *ni, unsigned options, struct ptl_eq *eq,
                  uint32_t wanted, uint32_t *index)
{
    struct ptl_pt *pt;
    int rc;

    if (options & ~PT_OPTIONS)
        return PTL_ARG_INVALID;
    if ((options & PTL_PT_FLOWCTRL) && !eq)
        return PTL_PT_EQ_NEEDED;
    if ((rc = find_free (ni, wanted, index)) != PTL_OK)
        return rc;
    if ((options & PTL_PT_FLOWCTRL) && !ptl_eq_reserve (eq))
        return PTL_NO_SPACE;
    pt = &ni->pt[*index];
    pt->is_allocated = true;
    pt->is_enabled = !(options & PTL_PT_ALLOC_DISABLED);
    pt->options = options;
    if ((pt->eq = eq))
        eq->users++;
    ptl_list_init (&pt->priority);
    ptl_list_init (&pt->overflow);
    return PTL_OK;
}

int ptl_pt_free (struct ptl_ni *ni, uint32_t index)
{
    struct ptl_pt *pt = ptl_ni_pt (ni, index);

    if (!pt)
        return PTL_ARG_INVALID;
    if (!ptl_list_empty (&pt->priority) || !ptl_list_empty (&pt->overflow))
        return PTL_PT_IN_USE;
    if (pt->eq)
        pt->eq->users--;
    if (pt->options & PTL_PT_FLOWCTRL)
        pt->eq->reserved--;
    memset (pt, 0, sizeof (*pt));
    return PTL_OK;
}

static void disable (struct ptl_ni *ni, uint8_t index)
{
    struct ptlx_event event = {
        .type = PTL_EVENT_PT_DISABLED,
        .pt_index = index,
        .ni_fail = PTL_NI_PT_DISABLED,
    };

    ni->pt[index].is_enabled = false;
    ptl_eq_post_surely (ni->pt[index].eq, &event);
}

static struct ptl_me *find (const struct ptl_node *list,
                            const struct ptl_who *who,
                            const struct ptl_frame *frame, struct ptl_rx *rx)
{
    struct ptl_me *me;

    for (struct ptl_node *n = list->next; n != list; n = n->next) {
        me = ptl_entry (n, struct ptl_me, node);
        if (ptl_me_matches (me, who, frame->match_bits, frame->offset,
                            frame->total, &rx->offset, &rx->mlength))
            return me;
    }
    return NULL;
}

/* What an entry must allow; an atomic operation writes, a fetching one reads,
 * too. */
static unsigned needed (const struct ptl_rx *rx)
{
    switch (rx->type) {
    case PTL_FRAME_GET:
        return PTL_ME_OP_GET;
    case PTL_FRAME_FETCH:
        return PTL_ME_OP_PUT | PTL_ME_OP_GET;
    default:
        return PTL_ME_OP_PUT;
    }
}

/* PTL_NI_OK: this entry takes the operation. */
static int permission (struct ptl_me *me, const struct ptl_who *who,
                       const struct ptl_rx *rx)
{
    if (me->me.uid != PTL_UID_ANY && me->me.uid != who->uid)
        return PTL_NI_PERM_VIOLATION;
    if (needed (rx) & ~me->me.options)
        return PTL_NI_OP_VIOLATION;
    if (me->owner)
        return me->owner->permits (me, who, rx->offset, rx->length);
    return PTL_NI_OK;
}

/* No entry, or no room for the event: FLOWCTRL turns the entry off. */
static int refuse (struct ptl_ni *ni, struct ptl_rx *rx)
{
    if (ni->pt[rx->pt_index].options & PTL_PT_FLOWCTRL) {
        disable (ni, rx->pt_index);
        return PTL_NI_PT_DISABLED;
    }
    ni->end->counters.dropped++;
    return PTL_NI_DROPPED;
}

static int match (struct ptl_ni *ni, const struct ptl_who *who,
                  const struct ptl_frame *frame, struct ptl_rx *rx)
{
    struct ptl_pt *pt = ptl_ni_pt (ni, frame->pt_index);
    struct ptl_me *me;
    int fail;

    if (!pt) {
        ni->end->counters.dropped++;
        return PTL_NI_DROPPED;
    }
    if (!pt->is_enabled)
        return PTL_NI_PT_DISABLED;
    if (!(me = find (&pt->priority, who, frame, rx))
        && !(me = find (&pt->overflow, who, frame, rx)))
        return refuse (ni, rx);
    if ((fail = permission (me, who, rx)) != PTL_NI_OK)
        return fail;
    if ((pt->options & PTL_PT_FLOWCTRL) && !ptl_eq_room (pt->eq))
        return refuse (ni, rx);
    rx->me = me;
    return PTL_NI_OK;
}

void ptl_pt_begin (struct ptl_end *end, const struct ptl_who *who,
                   const struct ptl_frame *frame, struct ptl_rx *rx)
{
    struct ptl_ni *ni = end->nis[frame->kind];
    struct ptl_eq *eq;

    memset (rx, 0, sizeof (*rx));
    rx->type = frame->type;
    rx->operation = (uint8_t)frame->operation;
    rx->datatype = (uint8_t)frame->datatype;
    rx->remote_offset = frame->offset;
    rx->length = frame->total;
    rx->match_bits = frame->match_bits;
    rx->hdr_data = frame->hdr_data;
    rx->op_index = frame->op_index;
    rx->op_generation = frame->op_generation;
    rx->pt_index = frame->pt_index;
    rx->ack = frame->detail;
    rx->lane = frame->lane;
    rx->fail = (uint8_t)(ni ? match (ni, who, frame, rx) : PTL_NI_DROPPED);
    if (rx->fail != PTL_NI_OK) {
        rx->mlength = 0;
        return;
    }
    rx->mem = &rx->me->mem;
    rx->start = ptl_mem_at (rx->mem, rx->offset);
    rx->is_ack_disabled
        = !rx->me->owner && (rx->me->me.options & PTL_ME_ACK_DISABLE);
    eq = ni->pt[frame->pt_index].eq;
    if (eq && !rx->me->owner) {
        rx->eq = eq; /* the entry may be freed before the end */
        rx->eq->promised++;
    }
    ptl_me_begin (rx->me, rx->mlength);
}

static uint32_t event_type (const struct ptl_rx *rx)
{
    switch (rx->type) {
    case PTL_FRAME_GET:
        return PTL_EVENT_GET;
    case PTL_FRAME_ATOMIC:
        return PTL_EVENT_ATOMIC;
    case PTL_FRAME_FETCH:
        return PTL_EVENT_FETCH_ATOMIC;
    default:
        return PTL_EVENT_PUT;
    }
}

static void post (const struct ptl_who *who, const struct ptl_rx *rx,
                  int fail)
{
    const struct ptl_me *me = rx->me;
    struct ptlx_event event = {
        .type = event_type (rx),
        .ni_fail = (uint32_t)fail,
        .nid = who->nid,
        .pid = who->pid,
        .serial = who->serial,
        .start = rx->start,
        .user_ptr = me->user_ptr,
        .mlength = rx->mlength,
        .rlength = rx->length,
        .remote_offset = rx->remote_offset,
        .match_bits = rx->match_bits,
        .hdr_data = rx->hdr_data,
        .job_id = who->job_id,
        .kind = who->kind,
        .uid = who->uid,
        .pt_index = rx->pt_index,
        .list = me->list,
        .operation = rx->operation,
        .datatype = rx->datatype,
    };

    if (!rx->eq)
        return;
    rx->eq->promised--;
    if ((me->me.options & PTL_ME_EVENT_COMM_DISABLE)
        || (fail == PTL_NI_OK
            && (me->me.options & PTL_ME_EVENT_SUCCESS_DISABLE)))
        return;
    if (me->ni->pt[rx->pt_index].options & PTL_PT_FLOWCTRL)
        ptl_eq_post_surely (rx->eq, &event); /* there was room for it */
    else
        ptl_eq_post (rx->eq, &event);
}

static void count (struct ptl_me *me, const struct ptl_rx *rx, int fail)
{
    bool by_bytes = me->me.options & PTL_ME_EVENT_CT_BYTES;
    unsigned wanted = me->list == PTL_OVERFLOW_LIST ? PTL_ME_EVENT_CT_OVERFLOW
                                                    : PTL_ME_EVENT_CT_COMM;

    if (!me->ct || !(me->me.options & wanted))
        return;
    if (fail == PTL_NI_OK)
        ptl_ct_add (me->ct, by_bytes ? rx->mlength : 1, 0);
    else
        ptl_ct_add (me->ct, 0, 1);
}

void ptl_pt_end (const struct ptl_who *who, struct ptl_rx *rx, int fail)
{
    struct ptl_me *me = rx->me;

    rx->is_open = false;
    if (!me)
        return;
    post (who, rx, fail);
    count (me, rx, fail);
    if (me->owner)
        me->owner->landed (me, rx, fail);
    ptl_me_end (me);
    rx->me = NULL;
}
