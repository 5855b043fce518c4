#include "ptl_ni.h"

#include <stdlib.h>

#include "ptl_ct.h"
#include "ptl_end.h"
#include "ptl_eq.h"
#include "ptl_handle.h"
#include "ptl_map.h"
#include "ptl_md.h"
#include "ptl_me.h"
#include "ptl_mem.h"
#include "ptl_unexpected.h"

int ptl_ni_kind_of (unsigned options)
{
    bool is_matching = options & PTL_NI_MATCHING;
    bool is_logical = options & PTL_NI_LOGICAL;

    if (options
        != ((is_matching ? PTL_NI_MATCHING : PTL_NI_NO_MATCHING)
            | (is_logical ? PTL_NI_LOGICAL : PTL_NI_PHYSICAL)))
        return -1;
    return (is_matching ? 0 : PTL_KIND_NO_MATCHING)
        | (is_logical ? PTL_KIND_LOGICAL : 0);
}

/* ---- limits ---- */

static int granted (int wish, int standard, int most)
{
    if (wish <= 0)
        return standard;
    return wish < most ? wish : most;
}

static uint64_t granted_bytes (uint64_t wish, uint64_t standard,
                               uint64_t most)
{
    if (wish == 0)
        return standard;
    return wish < most ? wish : most;
}

#define ALL_FEATURES PTL_TOTAL_DATA_ORDERING

/* PTL_TARGET_BIND_INACCESSIBLE costs each message a system call: only
 * interfaces that ask for it have it. */
static unsigned supported (unsigned wish)
{
    unsigned inaccessible = wish & PTL_TARGET_BIND_INACCESSIBLE;

    if (inaccessible && !ptl_mem_can_tell ())
        inaccessible = 0;
    return (wish & ALL_FEATURES) | inaccessible;
}

static void grant (ptl_ni_limits_t *to, const ptl_ni_limits_t *desired)
{
    static const ptl_ni_limits_t none = { .features = ALL_FEATURES };
    const ptl_ni_limits_t *d = desired ? desired : &none;

    *to = (ptl_ni_limits_t){
        .max_entries = granted (d->max_entries, 1 << 16, 1 << 20),
        .max_unexpected_headers
        = granted (d->max_unexpected_headers, 1 << 16, 1 << 20),
        .max_mds = granted (d->max_mds, 1 << 16, 1 << 20),
        .max_cts = granted (d->max_cts, 1 << 16, 1 << 20),
        .max_eqs = granted (d->max_eqs, 1 << 10, 1 << 16),
        .max_pt_index
        = granted (d->max_pt_index, PTL_PT_COUNT - 1, PTL_PT_MOST - 1),
        .max_iovecs = granted (d->max_iovecs, 1 << 10, 1 << 16),
        .max_list_size = granted (d->max_list_size, 1 << 16, 1 << 20),
        .max_triggered_ops
        = granted (d->max_triggered_ops, 1 << 16, 1 << 20),
        .max_msg_size = granted_bytes (d->max_msg_size, UINT64_C (1) << 40,
                                       PTL_MESSAGE_MOST),
        .max_atomic_size
        = granted_bytes (d->max_atomic_size, PTL_ATOMIC_MOST,
                         PTL_ATOMIC_MOST),
        .max_fetch_atomic_size
        = granted_bytes (d->max_fetch_atomic_size, PTL_ATOMIC_MOST,
                         PTL_ATOMIC_MOST),
        .max_waw_ordered_size
        = granted_bytes (d->max_waw_ordered_size, PTL_PAYLOAD_MAX,
                         PTL_PAYLOAD_MAX),
        .max_war_ordered_size
        = granted_bytes (d->max_war_ordered_size, PTL_REPLY_COPIED,
                         PTL_REPLY_COPIED),
        .max_volatile_size
        = granted_bytes (d->max_volatile_size, PTL_VOLATILE_USUAL,
                         PTL_PAYLOAD_MAX),
        .features = supported (d->features),
    };
}

/* ---- life ---- */

int ptl_ni_alloc (struct ptl_end *end, int kind,
                  const ptl_ni_limits_t *desired, struct ptl_ni **nip)
{
    struct ptl_ni *ni = calloc (1, sizeof (*ni));

    if (!ni)
        return PTL_NO_SPACE;
    grant (&ni->limits, desired);
    ni->pt = calloc ((size_t)ni->limits.max_pt_index + 1, sizeof (*ni->pt));
    if (!ni->pt) {
        free (ni);
        return PTL_NO_SPACE;
    }
    ni->end = end;
    ni->kind = (uint8_t)kind;
    ni->users = 1;
    ptl_list_init (&ni->eqs);
    ptl_list_init (&ni->cts);
    ptl_list_init (&ni->mds);
    ptl_list_init (&ni->mes);
    ptl_list_init (&ni->spare_mes);
    ptl_list_init (&ni->spare_headers);
    end->nis[kind] = ni;
    *nip = ni;
    return PTL_OK;
}

static void free_entries (struct ptl_ni *ni)
{
    ptl_unexpected_free_all (ni);
    while (!ptl_list_empty (&ni->mes))
        ptl_me_free (ptl_entry (ni->mes.next, struct ptl_me, all));
    ptl_me_free_spare (ni);
    while (!ptl_list_empty (&ni->mds)) {
        struct ptl_md *md = ptl_entry (ni->mds.next, struct ptl_md, node);

        md->users = 0;
        ptl_md_release (md);
    }
}

void ptl_ni_cancel (struct ptl_ni *ni)
{
    for (struct ptl_node *n = ni->cts.next; n != &ni->cts; n = n->next)
        ptl_ct_cancel (ptl_entry (n, struct ptl_ct, node));
}

void ptl_ni_free (struct ptl_ni *ni)
{
    ptl_ni_cancel (ni);
    free_entries (ni);
    while (!ptl_list_empty (&ni->cts))
        ptl_ct_free (ptl_entry (ni->cts.next, struct ptl_ct, node));
    while (!ptl_list_empty (&ni->eqs))
        ptl_eq_free (ptl_entry (ni->eqs.next, struct ptl_eq, node));
    ptl_handle_forget (ni->handle);
    ptl_map_free (ni->map);
    ni->end->n_bundles -= ni->n_bundles;
    ni->end->nis[ni->kind] = NULL;
    free (ni->pt);
    free (ni);
}

struct ptl_pt *ptl_ni_pt (const struct ptl_ni *ni, uint32_t index)
{
    if (index > (uint32_t)ni->limits.max_pt_index
        || !ni->pt[index].is_allocated)
        return NULL;
    return &ni->pt[index];
}
