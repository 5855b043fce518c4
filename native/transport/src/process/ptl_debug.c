#include "ptl_debug.h"

#include <stdio.h>
#include <string.h>

#include "ptl_end.h"
#include "ptl_env.h"
#include "ptl_map.h"
#include "ptl_ni.h"
#include "ptl_shared.h"

static const char *text_of (uint32_t loss)
{
    switch (loss) {
    case PTLX_LOSS_UNREACHABLE:
        return "it cannot be reached";
    case PTLX_LOSS_WRONG_KEY:
        return "one of us has no key, or another (PTL_KEY_FILE)";
    case PTLX_LOSS_WRONG_VERSION:
        return "it has another version of libportals";
    case PTLX_LOSS_WRONG_PEER:
        return "another process listens there";
    case PTLX_LOSS_CLOSED:
        return "it ended, or we did, before all had been answered";
    case PTLX_LOSS_DIED:
        return "its connection broke: it died, or was killed";
    case PTLX_LOSS_RESTARTED:
        return "it died, and another process has its address";
    case PTLX_LOSS_MISBEHAVED:
        return "it sent what the protocol does not allow";
    case PTLX_LOSS_REFUSED:
        return "one of us wants a key, or has PTL_INTEGRITY=on alone";
    case PTLX_LOSS_CROWDED:
        return "too many connections there have not proven who they are";
    default:
        return "no reason is known";
    }
}

/* Is the detail an errno? For other losses it is a version. */
static bool has_errno (uint32_t loss, int detail)
{
    return detail != 0
        && (loss == PTLX_LOSS_UNREACHABLE || loss == PTLX_LOSS_DIED
            || loss == PTLX_LOSS_MISBEHAVED);
}

static ptl_rank_t rank_of (const struct ptl_end *end, uint32_t nid,
                           uint32_t pid)
{
    ptl_rank_t rank = PTL_RANK_ANY;

    for (int kind = 0; kind < PTL_KINDS && rank == PTL_RANK_ANY; kind++)
        if (end->nis[kind])
            rank = ptl_map_rank (end->nis[kind]->map, nid, pid);
    return rank;
}

void ptl_debug_lost (const struct ptl_end *end, uint32_t nid, uint32_t pid,
                     uint32_t loss, int detail, bool was_busy)
{
    char who[24] = "";
    ptl_rank_t rank;

    if (!ptl_shared_is (end) || !ptl_env ()->tells_losses
        || (loss == PTLX_LOSS_CLOSED && !was_busy))
        return;
    if ((rank = rank_of (end, nid, pid)) != PTL_RANK_ANY)
        snprintf (who, sizeof (who), " (rank %u)", rank);
    fprintf (stderr, "libportals: lost %u.%u.%u.%u:%u%s: %s%s%s\n", nid >> 24,
             nid >> 16 & 255, nid >> 8 & 255, nid & 255, pid, who,
             text_of (loss), has_errno (loss, detail) ? ": " : "",
             has_errno (loss, detail) ? strerror (detail) : "");
}
