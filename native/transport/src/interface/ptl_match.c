#include "ptl_match.h"

#include "ptl_map.h"
#include "ptl_ni.h"

static bool id_matches (const struct ptl_me *me, struct ptl_request *request)
{
    const ptl_process_t *wanted = &me->me.match_id;

    if (!ptl_ni_is_logical (me->ni))
        return (wanted->phys.nid == PTL_NID_ANY
                || wanted->phys.nid == request->nid)
            && (wanted->phys.pid == PTL_PID_ANY
                || wanted->phys.pid == request->pid);
    if (wanted->rank == PTL_RANK_ANY)
        return true;
    if (!request->has_rank) {
        request->rank
            = ptl_map_rank (me->ni->map, request->nid, request->pid);
        request->has_rank = true;
    }
    return wanted->rank == request->rank;
}

bool ptl_match_takes (const struct ptl_me *me, struct ptl_request *request,
                      uint64_t *offset, uint64_t *mlength)
{
    bool is_local = me->me.options & PTL_ME_MANAGE_LOCAL;
    uint64_t room;

    if (ptl_ni_is_matching (me->ni)
        && (((request->match_bits ^ me->me.match_bits) & ~me->me.ignore_bits)
            || !id_matches (me, request)))
        return false;
    *offset = is_local ? me->used : request->offset;
    if (*offset > me->mem.length)
        *offset = me->mem.length;
    room = me->mem.length - *offset;
    if (request->length > room && (me->me.options & PTL_ME_NO_TRUNCATE))
        return false;
    *mlength = request->length < room ? request->length : room;
    return true;
}

int ptl_match_permits (const struct ptl_me *me,
                       const struct ptl_request *request)
{
    if (me->me.uid != PTL_UID_ANY && me->me.uid != request->uid)
        return PTL_NI_PERM_VIOLATION;
    if (request->needs & ~me->me.options)
        return PTL_NI_OP_VIOLATION;
    return PTL_NI_OK;
}

bool ptl_match_reaches (const struct ptl_me *me, unsigned needs,
                        uint64_t offset, uint64_t first, uint64_t mlength)
{
    return (first == mlength || ptl_mem_is_mapped (&me->mem, offset, mlength))
        && ptl_mem_is_accessible (&me->mem, offset, first,
                                  needs & PTL_ME_OP_PUT);
}
