#include "ptl_ends.h"

#include "ptl_debug.h"
#include "ptl_end.h"
#include "ptl_eq.h"
#include "ptl_fwd.h"
#include "ptl_ni.h"
#include "ptl_process.h"
#include "ptl_pt.h"
#include "ptl_wait.h"

static struct ptl_node ends = { &ends, &ends }; /* of struct ptl_end */

/* What is owed is written even where a bundle is open. */
static void ending (struct ptl_end *end)
{
    ptl_wait_end (end);
    for (int kind = 0; kind < PTL_KINDS; kind++)
        if (end->nis[kind])
            end->nis[kind]->n_bundles = 0;
}

static void ended (struct ptl_end *end)
{
    ptl_fwd_free_all (end);
    ptl_end_discard_work (end);
    for (int kind = 0; kind < PTL_KINDS; kind++)
        if (end->nis[kind])
            ptl_ni_free (end->nis[kind]);
}

static const struct ptl_above above = {
    .begin = ptl_pt_begin,
    .go_on = ptl_pt_go_on,
    .finish = ptl_pt_end,
    .post = ptl_eq_post_surely,
    .disconnected = ptl_fwd_peer_lost,
    .lost = ptl_debug_lost,
    .aborted = ptl_abort_seen,
    .ending = ending,
    .ended = ended,
};

int ptl_ends_make (const struct ptlx_config *config, struct ptl_end **endp)
{
    struct ptl_end *end;
    int rc = ptl_end_alloc (config, &above, &end);

    if (rc != PTL_OK)
        return rc;
    if (ptl_abort_watch (end) != PTL_OK) {
        ptl_end_free (end, 0);
        return PTL_FAIL;
    }
    ptl_list_append (&ends, &end->node);
    *endp = end;
    return PTL_OK;
}

void ptl_ends_free_all (void)
{
    while (!ptl_list_empty (&ends))
        ptl_end_free (ptl_entry (ends.next, struct ptl_end, node),
                      PTL_FLUSH_MS);
}
