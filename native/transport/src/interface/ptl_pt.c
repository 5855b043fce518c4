#include "ptl_pt.h"

#include <string.h>

#include "ptl_ct.h"
#include "ptl_eq.h"
#include "ptl_me.h"
#include "ptl_end.h"
#include "ptl_match.h"
#include "ptl_ni.h"
#include "ptl_unexpected.h"

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
    ptl_list_init (&pt->unexpected);
    ptl_list_init (&pt->taken);
    return PTL_OK;
}

int ptl_pt_free (struct ptl_ni *ni, uint32_t index)
{
    struct ptl_pt *pt = ptl_ni_pt (ni, index);

    if (!pt)
        return PTL_ARG_INVALID;
    if (pt->users > 0 || !ptl_list_empty (&pt->unexpected))
        return PTL_PT_IN_USE;
    if (pt->eq)
        pt->eq->users--;
    if (pt->eq && (pt->options & PTL_PT_FLOWCTRL))
        ptl_eq_unreserve (pt->eq);
    memset (pt, 0, sizeof (*pt));
    return PTL_OK;
}

/* ---- refusing ---- */

void ptl_pt_post (struct ptl_ni *ni, uint32_t index,
                  const struct ptlx_event *event)
{
    struct ptl_pt *pt = &ni->pt[index];

    if (!pt->eq)
        return;
    if (pt->options & PTL_PT_FLOWCTRL)
        ptl_eq_post_surely (pt->eq, event);
    else
        ptl_eq_post (pt->eq, event);
}

void ptl_pt_count_refusal (struct ptl_ni *ni, int fail)
{
    switch (fail) {
    case PTL_NI_DROPPED:
        ni->status[PTL_SR_DROP_COUNT]++;
        ni->end->counters.dropped++;
        break;
    case PTL_NI_PERM_VIOLATION:
        ni->status[PTL_SR_PERMISSION_VIOLATIONS]++;
        break;
    case PTL_NI_OP_VIOLATION:
        ni->status[PTL_SR_OPERATION_VIOLATIONS]++;
        break;
    default: /* a disabled entry */
        break;
    }
}

/* There is no entry (`me` is NULL), or no room for its event or header. With
 * FLOWCTRL that turns the table entry off until its user has made room. */
static int give_up (struct ptl_ni *ni, uint8_t index, const struct ptl_me *me)
{
    struct ptl_pt *pt = &ni->pt[index];
    struct ptlx_event event = {
        .type = PTL_EVENT_PT_DISABLED,
        .pt_index = index,
        .ni_fail = PTL_NI_PT_DISABLED,
    };

    if (!(pt->options & PTL_PT_FLOWCTRL))
        return PTL_NI_DROPPED;
    pt->is_enabled = false;
    if (me)
        ni->end->is_starved = true;
    if (!me || !(me->me.options & PTL_ME_EVENT_FLOWCTRL_DISABLE))
        ptl_pt_post (ni, index, &event);
    return PTL_NI_PT_DISABLED;
}

/* ---- matching ---- */

static struct ptl_me *find (const struct ptl_node *list,
                            struct ptl_request *request, struct ptl_rx *rx)
{
    struct ptl_me *me;

    for (struct ptl_node *n = list->next; n != list; n = n->next) {
        me = ptl_entry (n, struct ptl_me, node);
        if (ptl_match_takes (me, request, &rx->offset, &rx->mlength))
            return me;
    }
    return NULL;
}

/* The options that an entry must have: an atomic operation writes, a fetching
 * one reads as well. */
static unsigned needed (uint8_t type)
{
    switch (type) {
    case PTL_FRAME_GET:
        return PTL_ME_OP_GET;
    case PTL_FRAME_FETCH:
        return PTL_ME_OP_PUT | PTL_ME_OP_GET;
    default:
        return PTL_ME_OP_PUT;
    }
}

/* How many events of the operation need room in the queue. */
static uint8_t events_of (const struct ptl_me *me, const struct ptl_rx *rx)
{
    unsigned n = 0;

    if (me->owner)
        return 0;
    if (!(me->me.options
          & (PTL_ME_EVENT_COMM_DISABLE | PTL_ME_EVENT_SUCCESS_DISABLE)))
        n++;
    if (!(me->me.options & PTL_ME_EVENT_UNLINK_DISABLE)
        && ptl_me_is_last (me, rx->mlength))
        n += me->list == PTL_OVERFLOW_LIST ? 2 : 1;
    return (uint8_t)n;
}

static bool has_room (const struct ptl_pt *pt, size_t wanted)
{
    size_t used;

    if (!pt->eq || !(pt->options & PTL_PT_FLOWCTRL))
        return true;
    used = pt->eq->used + pt->eq->promised;
    return used == 0 || used + wanted <= pt->eq->count;
}

static bool leaves_header (const struct ptl_me *me)
{
    return me->list == PTL_OVERFLOW_LIST && !me->owner
        && !(me->me.options & PTL_ME_UNEXPECTED_HDR_DISABLE);
}

/* Find its entry, rx->me. */
static int match (struct ptl_ni *ni, const struct ptl_who *who,
                  const struct ptl_frame *frame, struct ptl_rx *rx)
{
    struct ptl_pt *pt = ptl_ni_pt (ni, frame->pt_index);
    struct ptl_request request = {
        .nid = who->nid,
        .pid = who->pid,
        .uid = who->uid,
        .needs = needed (frame->type),
        .match_bits = frame->match_bits,
        .offset = frame->offset,
        .length = frame->total,
    };
    struct ptl_me *me;
    int fail;

    if (!pt)
        return PTL_NI_DROPPED;
    if (!pt->is_enabled)
        return PTL_NI_PT_DISABLED;
    if (!(me = find (&pt->priority, &request, rx))
        && !(me = find (&pt->overflow, &request, rx)))
        return give_up (ni, rx->pt_index, NULL);
    fail = ptl_match_permits (me, &request);
    if (fail == PTL_NI_OK && me->owner)
        fail = me->owner->permits (me, who, rx->offset, rx->length);
    if (fail != PTL_NI_OK)
        return fail;
    rx->promised = events_of (me, rx);
    if (!has_room (pt, rx->promised)
        || (leaves_header (me)
            && !(rx->header = ptl_unexpected_reserve (ni))))
        return give_up (ni, rx->pt_index, me);
    rx->me = me;
    rx->ni = ni;
    return PTL_NI_OK;
}

/* ---- an operation ---- */

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

static struct ptlx_event event_of (const struct ptl_who *who,
                                   const struct ptl_rx *rx, int fail)
{
    return (struct ptlx_event){
        .type = event_type (rx),
        .ni_fail = (uint32_t)fail,
        .nid = who->nid,
        .pid = who->pid,
        .serial = who->serial,
        .start = rx->start,
        .user_ptr = rx->me->user_ptr,
        .mlength = rx->mlength,
        .rlength = rx->length,
        .remote_offset = rx->remote_offset,
        .match_bits = rx->match_bits,
        .hdr_data = rx->hdr_data,
        .job_id = who->job_id,
        .kind = who->kind,
        .uid = who->uid,
        .pt_index = rx->pt_index,
        .list = rx->list,
        .operation = rx->operation,
        .datatype = rx->datatype,
    };
}

static uint64_t least (uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Make only the memory of the first fragment present: all of a large put would
 * stop everybody else for long. */
static void probe_first (struct ptl_rx *rx, const struct ptl_frame *frame)
{
    bool is_in_parts = frame->type == PTL_FRAME_PUT
        && (frame->flags & PTL_FLAG_FIRST) && !(frame->flags & PTL_FLAG_LAST);
    uint64_t first
        = is_in_parts ? least (frame->length, rx->mlength) : rx->mlength;

    if (ptl_match_reaches (rx->me, needed (rx->type), rx->offset, first,
                           rx->mlength))
        return;
    rx->fail = PTL_NI_SEGV; /* matched, and nothing lands */
    rx->mlength = 0;
}

void ptl_pt_go_on (struct ptl_rx *rx, uint32_t length)
{
    uint64_t next;

    if (!rx->me || !rx->me->is_probed || rx->received >= rx->mlength)
        return;
    next = least (length, rx->mlength - rx->received);
    if (ptl_match_reaches (rx->me, needed (rx->type), rx->offset + rx->received,
                           next, next))
        return;
    rx->fail = PTL_NI_SEGV; /* and nothing more lands */
    rx->mlength = 0;
}

static void accept_it (struct ptl_ni *ni, const struct ptl_who *who,
                       const struct ptl_frame *frame, struct ptl_rx *rx)
{
    struct ptl_pt *pt = &ni->pt[rx->pt_index];
    struct ptl_me *me = rx->me;
    struct ptlx_event event;

    if (me->is_probed)
        probe_first (rx, frame);
    rx->begun_ms = ptl_end_own_ms (ni->end);
    rx->list = (uint8_t)me->list;
    rx->mem = &me->mem;
    rx->start = ptl_mem_at (rx->mem, rx->offset);
    rx->is_ack_disabled
        = !me->owner && (me->me.options & PTL_ME_ACK_DISABLE);
    pt->busy++;
    if (pt->eq)
        pt->eq->promised += rx->promised;
    if (rx->header) {
        event = event_of (who, rx, PTL_NI_OK);
        ptl_unexpected_leave (rx->header, me, &event, needed (rx->type));
    }
    rx->is_last = ptl_me_begin (me, rx->mlength);
}

void ptl_pt_begin (struct ptl_end *end, const struct ptl_who *who,
                   const struct ptl_frame *frame, struct ptl_rx *rx)
{
    struct ptl_ni *ni = end->nis[frame->kind];

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
    if (rx->fail == PTL_NI_OK) {
        accept_it (ni, who, frame, rx);
        return;
    }
    rx->mlength = 0;
    if (ni)
        ptl_pt_count_refusal (ni, rx->fail);
}

static void post (const struct ptl_who *who, const struct ptl_rx *rx,
                  int fail)
{
    const struct ptl_me *me = rx->me;
    struct ptlx_event event;

    if (me->owner || (me->me.options & PTL_ME_EVENT_COMM_DISABLE)
        || (fail == PTL_NI_OK
            && (me->me.options & PTL_ME_EVENT_SUCCESS_DISABLE)))
        return;
    event = event_of (who, rx, fail);
    ptl_pt_post (me->ni, rx->pt_index, &event);
}

void ptl_pt_end (const struct ptl_who *who, struct ptl_rx *rx, int fail)
{
    struct ptl_me *me = rx->me;
    struct ptl_pt *pt;

    rx->is_open = false;
    if (!me)
        return;
    pt = &me->ni->pt[rx->pt_index];
    pt->busy--;
    if (pt->eq)
        pt->eq->promised -= rx->promised;
    post (who, rx, fail);
    if (rx->is_last)
        ptl_me_used_up (me);
    ptl_me_count (me, PTL_ME_EVENT_CT_COMM, fail, rx->mlength);
    if (me->owner)
        me->owner->landed (me, rx, fail);
    if (rx->header)
        ptl_unexpected_landed (rx->header, fail, rx->mlength);
    if (pt->busy == 0 && !pt->is_enabled)
        me->ni->end->changes++; /* PtlPTDisable waits for that */
    ptl_me_end (me);
    rx->me = NULL;
}
