/* ptl_api_object.c - public calls: descriptors, queues, counters. */
#include "ptl_api.h"
#include "ptl_ct.h"
#include "ptl_eq.h"
#include "ptl_map.h"
#include "ptl_md.h"
#include "ptl_wait.h"

/* ---- memory descriptors ---- */

int PtlMDBind (ptl_handle_ni_t handle, const ptl_md_t *md,
               ptl_handle_md_t *md_handle)
{
    struct ptl_ni *ni;
    struct ptl_md *new;
    struct ptl_eq *eq;
    struct ptl_ct *ct;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!md || !md_handle
        || ptl_api_find_eq (ni, md->eq_handle, &eq) != PTL_OK
        || ptl_api_find_ct (ni, md->ct_handle, &ct) != PTL_OK)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    if ((rc = ptl_md_bind (ni, md, eq, ct, &new)) != PTL_OK)
        return ptl_leave (NULL, rc);
    if ((rc = ptl_handle_add (PTL_HANDLE_MD, new, &new->handle)) != PTL_OK)
        ptl_md_release (new);
    else
        *md_handle = new->handle;
    return ptl_leave (NULL, rc);
}

int PtlMDRelease (ptl_handle_md_t handle)
{
    struct ptl_md *md;
    int rc = ptl_api_md (handle, &md);

    return rc == PTL_OK ? ptl_leave (NULL, ptl_md_release (md)) : rc;
}

/* ---- event queues ---- */

int PtlEQAlloc (ptl_handle_ni_t handle, ptl_size_t count,
                ptl_handle_eq_t *eq_handle)
{
    struct ptl_ni *ni;
    struct ptl_eq *eq;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!eq_handle)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    if ((rc = ptl_eq_alloc (ni, count, &eq)) != PTL_OK)
        return ptl_leave (NULL, rc);
    if ((rc = ptl_handle_add (PTL_HANDLE_EQ, eq, &eq->handle)) != PTL_OK)
        ptl_eq_free (eq);
    else
        *eq_handle = eq->handle;
    return ptl_leave (NULL, rc);
}

int PtlEQFree (ptl_handle_eq_t handle)
{
    struct ptl_eq *eq;
    struct ptl_end *end;
    int rc = ptl_api_eq (handle, &eq);

    if (rc != PTL_OK)
        return rc;
    end = eq->ni->end;
    ptl_eq_free (eq);
    ptl_wait_wake (end);
    return ptl_leave (end, PTL_OK);
}

void ptl_api_event (const struct ptl_ni *ni, const struct ptlx_event *from,
                    ptl_event_t *to)
{
    *to = (ptl_event_t){
        .start = from->start,
        .user_ptr = from->user_ptr,
        .hdr_data = from->hdr_data,
        .match_bits = from->match_bits,
        .rlength = from->rlength,
        .mlength = from->mlength,
        .remote_offset = from->remote_offset,
        .uid = from->uid,
        .initiator.phys = { from->nid, from->pid },
        .type = (ptl_event_kind_t)from->type,
        .ptl_list = (ptl_list_t)from->list,
        .pt_index = from->pt_index,
        .ni_fail_type = (ptl_ni_fail_t)from->ni_fail,
        .atomic_operation = (ptl_op_t)from->operation,
        .atomic_type = (ptl_datatype_t)from->datatype,
    };
    if (ptl_ni_is_logical (ni))
        to->initiator.rank = ptl_map_rank (ni->map, from->nid, from->pid);
}

/* ---- counting events ---- */

int PtlCTAlloc (ptl_handle_ni_t handle, ptl_handle_ct_t *ct_handle)
{
    struct ptl_ni *ni;
    struct ptl_ct *ct;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!ct_handle)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    if ((rc = ptl_ct_alloc (ni, &ct)) != PTL_OK)
        return ptl_leave (NULL, rc);
    if ((rc = ptl_handle_add (PTL_HANDLE_CT, ct, &ct->handle)) != PTL_OK)
        ptl_ct_free (ct);
    else
        *ct_handle = ct->handle;
    return ptl_leave (NULL, rc);
}

int PtlCTFree (ptl_handle_ct_t handle)
{
    struct ptl_ct *ct;
    struct ptl_end *end;
    int rc = ptl_api_ct (handle, &ct);

    if (rc != PTL_OK)
        return rc;
    end = ct->ni->end;
    ptl_ct_free (ct);
    ptl_wait_wake (end);
    return ptl_leave (end, PTL_OK);
}

int PtlCTSet (ptl_handle_ct_t handle, ptl_ct_event_t value)
{
    struct ptl_ct *ct;
    int rc = ptl_api_ct (handle, &ct);

    if (rc != PTL_OK)
        return rc;
    ptl_ct_set (ct, value);
    return ptl_leave (ct->ni->end, PTL_OK);
}

int PtlCTInc (ptl_handle_ct_t handle, ptl_ct_event_t increment)
{
    struct ptl_ct *ct;
    int rc = ptl_api_ct (handle, &ct);

    if (rc != PTL_OK)
        return rc;
    ptl_ct_add (ct, increment.success, increment.failure);
    return ptl_leave (ct->ni->end, PTL_OK);
}

int PtlCTCancelTriggered (ptl_handle_ct_t handle)
{
    struct ptl_ct *ct;
    int rc = ptl_api_ct (handle, &ct);

    if (rc != PTL_OK)
        return rc;
    ptl_ct_cancel (ct);
    return ptl_leave (ct->ni->end, PTL_OK);
}
