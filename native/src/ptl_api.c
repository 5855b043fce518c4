/* ptl_api.c - the public calls: handles in, objects out, nothing decided. */
#include "ptl_api.h"

#include "ptl_ct.h"
#include "ptl_eq.h"
#include "ptl_md.h"
#include "ptl_me.h"
#include "ptl_put.h"

int ptl_api_done (struct ptl_ni *ni, int rc)
{
    ptl_ni_settle (ni);
    ptl_ni_signal (ni);
    return rc;
}

int ptl_api_ni (uint32_t handle, struct ptl_ni **nip)
{
    int rc = ptl_handle_find (handle, PTL_HANDLE_NI, nip);

    if (rc == PTL_OK)
        (*nip)->now_ms = ptl_clock_ns () / 1000000;
    return rc;
}

int ptl_api_eq (const struct ptl_ni *ni, uint32_t handle, struct ptl_eq **eqp)
{
    int rc;

    *eqp = NULL;
    if (handle == PTL_EQ_NONE)
        return PTL_OK;
    rc = ptl_handle_find (handle, PTL_HANDLE_EQ, eqp);
    return rc == PTL_OK && (*eqp)->ni != ni ? PTL_ARG_INVALID : rc;
}

int ptl_api_ct (const struct ptl_ni *ni, uint32_t handle, struct ptl_ct **ctp)
{
    int rc;

    *ctp = NULL;
    if (handle == PTL_CT_NONE)
        return PTL_OK;
    rc = ptl_handle_find (handle, PTL_HANDLE_CT, ctp);
    return rc == PTL_OK && (*ctp)->ni != ni ? PTL_ARG_INVALID : rc;
}

/* ---- library and interfaces ---- */

int PtlInit (void)
{
    return ptl_handle_init ();
}

void ptl_api_end (struct ptl_ni *ni, uint32_t flush_ms)
{
    ptl_ni_forget_handle (ni->handle);
    ptl_ni_free (ni, flush_ms);
}

void PtlFini (void)
{
    struct ptl_ni *ni;

    if (!ptl_handle_fini ())
        return;
    while ((ni = ptl_handle_any_ni ()))
        ptl_api_end (ni, 2000);
}

static void fill_limits (ptl_ni_limits_t *limits)
{
    *limits = (ptl_ni_limits_t){
        .max_entries = 1 << 20,
        .max_mds = 1 << 20,
        .max_cts = 1 << 20,
        .max_eqs = 1 << 20,
        .max_pt_index = PTL_PT_COUNT - 1,
        .max_list_size = 1 << 20,
        .max_triggered_ops = 1 << 20,
        .max_msg_size = UINT64_C (1) << 48,
        .max_waw_ordered_size = PTL_PAYLOAD_MAX,
    };
}

int PtlNIInit (ptl_interface_t iface, unsigned int options, ptl_pid_t pid,
               const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual,
               ptl_handle_ni_t *ni)
{
    struct ptlx_config config = { .listen_nid = 0x7f000001 };

    (void)desired;
    if (iface != PTL_IFACE_DEFAULT
        || options != (PTL_NI_MATCHING | PTL_NI_PHYSICAL))
        return PTL_ARG_INVALID;
    config.listen_pid = pid == PTL_PID_ANY ? 0 : pid;
    if (actual)
        fill_limits (actual);
    return PtlxNIInit (&config, ni);
}

int PtlNIFini (ptl_handle_ni_t handle)
{
    return PtlxNIFini (handle, 2000);
}

int PtlGetPhysId (ptl_handle_ni_t handle, ptl_process_t *id)
{
    struct ptl_ni *ni;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!id)
        return PTL_ARG_INVALID;
    id->phys.nid = ni->self.nid;
    id->phys.pid = ni->self.pid;
    return PTL_OK;
}

int PtlGetId (ptl_handle_ni_t handle, ptl_process_t *id)
{
    return PtlGetPhysId (handle, id);
}

int PtlGetUid (ptl_handle_ni_t handle, ptl_uid_t *uid)
{
    struct ptl_ni *ni;
    int rc = ptl_api_ni (handle, &ni);

    if (rc == PTL_OK && uid)
        *uid = ni->self.uid;
    return rc == PTL_OK && !uid ? PTL_ARG_INVALID : rc;
}

/* ---- portal table ---- */

int PtlPTAlloc (ptl_handle_ni_t handle, unsigned int options,
                ptl_handle_eq_t eq_handle, ptl_pt_index_t wanted,
                ptl_pt_index_t *index)
{
    struct ptl_ni *ni;
    struct ptl_eq *eq;
    int rc;

    if ((rc = ptl_api_ni (handle, &ni)) != PTL_OK
        || (rc = ptl_api_eq (ni, eq_handle, &eq)) != PTL_OK)
        return rc;
    if (!index)
        return PTL_ARG_INVALID;
    return ptl_pt_alloc (ni, options, eq, wanted, index);
}

int PtlPTFree (ptl_handle_ni_t handle, ptl_pt_index_t index)
{
    struct ptl_ni *ni;
    int rc = ptl_api_ni (handle, &ni);

    return rc == PTL_OK ? ptl_pt_free (ni, index) : rc;
}

static int set_enabled (ptl_handle_ni_t handle, ptl_pt_index_t index,
                        bool is_enabled)
{
    struct ptl_ni *ni;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (index >= PTL_PT_COUNT || !ni->pt[index].is_allocated)
        return PTL_ARG_INVALID;
    ni->pt[index].is_enabled = is_enabled;
    return PTL_OK;
}

int PtlPTDisable (ptl_handle_ni_t handle, ptl_pt_index_t index)
{
    return set_enabled (handle, index, false);
}

int PtlPTEnable (ptl_handle_ni_t handle, ptl_pt_index_t index)
{
    return set_enabled (handle, index, true);
}

/* ---- memory descriptors and match entries ---- */

int PtlMDBind (ptl_handle_ni_t handle, const ptl_md_t *md,
               ptl_handle_md_t *md_handle)
{
    struct ptl_ni *ni;
    struct ptl_md *new;
    struct ptl_eq *eq;
    struct ptl_ct *ct;
    int rc;

    if (!md || !md_handle)
        return PTL_ARG_INVALID;
    if ((rc = ptl_api_ni (handle, &ni)) != PTL_OK
        || (rc = ptl_api_eq (ni, md->eq_handle, &eq)) != PTL_OK
        || (rc = ptl_api_ct (ni, md->ct_handle, &ct)) != PTL_OK
        || (rc = ptl_md_bind (ni, md, eq, ct, &new)) != PTL_OK)
        return rc;
    if ((rc = ptl_handle_add (PTL_HANDLE_MD, new, &new->handle)) != PTL_OK) {
        ptl_md_release (new);
        return rc;
    }
    *md_handle = new->handle;
    return PTL_OK;
}

int PtlMDRelease (ptl_handle_md_t handle)
{
    struct ptl_md *md;
    int rc = ptl_handle_find (handle, PTL_HANDLE_MD, &md);

    if (rc == PTL_OK && (rc = ptl_md_release (md)) == PTL_OK)
        ptl_ni_forget_handle (handle);
    return rc;
}

int PtlMEAppend (ptl_handle_ni_t handle, ptl_pt_index_t index,
                 const ptl_me_t *me, ptl_list_t list, void *user_ptr,
                 ptl_handle_me_t *me_handle)
{
    struct ptl_ni *ni;
    struct ptl_me *new;
    struct ptl_ct *ct;
    int rc;

    if (!me || !me_handle)
        return PTL_ARG_INVALID;
    if ((rc = ptl_api_ni (handle, &ni)) != PTL_OK
        || (rc = ptl_api_ct (ni, me->ct_handle, &ct)) != PTL_OK
        || (rc = ptl_me_append (ni, index, me, ct, list, user_ptr, &new))
               != PTL_OK)
        return rc;
    if ((rc = ptl_handle_add (PTL_HANDLE_ME, new, &new->handle)) != PTL_OK) {
        ptl_me_free (new);
        return rc;
    }
    *me_handle = new->handle;
    return ptl_api_done (ni, PTL_OK);
}

int PtlMEUnlink (ptl_handle_me_t handle)
{
    struct ptl_me *me;
    int rc = ptl_handle_find (handle, PTL_HANDLE_ME, &me);

    return rc == PTL_OK ? ptl_me_unlink (me) : rc;
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
        return PTL_ARG_INVALID;
    if ((rc = ptl_eq_alloc (ni, count, &eq)) != PTL_OK)
        return rc;
    if ((rc = ptl_handle_add (PTL_HANDLE_EQ, eq, &eq->handle)) != PTL_OK) {
        ptl_eq_free (eq);
        return rc;
    }
    *eq_handle = eq->handle;
    return PTL_OK;
}

int PtlEQFree (ptl_handle_eq_t handle)
{
    struct ptl_eq *eq;
    struct ptl_ni *ni;
    int rc = ptl_handle_find (handle, PTL_HANDLE_EQ, &eq);

    if (rc != PTL_OK)
        return rc;
    if (eq->users > 0 || eq->promised > 0 || eq->ni->notify == eq)
        return PTL_IN_USE;
    ni = eq->ni;
    ptl_eq_free (eq);
    ptl_ni_forget_handle (handle);
    return ptl_api_done (ni, PTL_OK);
}

static void to_standard (const struct ptlx_event *from, ptl_event_t *to)
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
    };
}

int PtlEQGet (ptl_handle_eq_t handle, ptl_event_t *event)
{
    struct ptlx_event own;
    struct ptl_eq *eq;
    int rc = ptl_handle_find (handle, PTL_HANDLE_EQ, &eq);

    if (rc != PTL_OK)
        return rc;
    if (!event)
        return PTL_ARG_INVALID;
    if (eq->used == 0)
        ptl_ni_progress (eq->ni, 0);
    rc = ptl_eq_get (eq, &own);
    if (rc != PTL_EQ_EMPTY)
        to_standard (&own, event);
    return ptl_api_done (eq->ni, rc);
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
        return PTL_ARG_INVALID;
    if ((rc = ptl_ct_alloc (ni, &ct)) != PTL_OK)
        return rc;
    if ((rc = ptl_handle_add (PTL_HANDLE_CT, ct, &ct->handle)) != PTL_OK) {
        ptl_ct_free (ct);
        return rc;
    }
    *ct_handle = ct->handle;
    return PTL_OK;
}

static int find_ct (ptl_handle_ct_t handle, struct ptl_ct **ctp)
{
    return ptl_handle_find (handle, PTL_HANDLE_CT, ctp);
}

int PtlCTFree (ptl_handle_ct_t handle)
{
    struct ptl_ct *ct;
    int rc = find_ct (handle, &ct);

    if (rc != PTL_OK)
        return rc;
    if (ct->users > 0)
        return PTL_IN_USE;
    ptl_ct_free (ct);
    ptl_ni_forget_handle (handle);
    return PTL_OK;
}

int PtlCTGet (ptl_handle_ct_t handle, ptl_ct_event_t *event)
{
    struct ptl_ct *ct;
    int rc = find_ct (handle, &ct);

    if (rc != PTL_OK)
        return rc;
    if (!event)
        return PTL_ARG_INVALID;
    ptl_ni_progress (ct->ni, 0);
    *event = ct->value;
    return ptl_api_done (ct->ni, PTL_OK);
}

int PtlCTSet (ptl_handle_ct_t handle, ptl_ct_event_t value)
{
    struct ptl_ct *ct;
    int rc = find_ct (handle, &ct);

    if (rc != PTL_OK)
        return rc;
    ptl_ct_set (ct, value);
    return ptl_api_done (ct->ni, PTL_OK);
}

int PtlCTInc (ptl_handle_ct_t handle, ptl_ct_event_t increment)
{
    struct ptl_ct *ct;
    int rc = find_ct (handle, &ct);

    if (rc != PTL_OK)
        return rc;
    ptl_ct_add (ct, increment.success, increment.failure);
    return ptl_api_done (ct->ni, PTL_OK);
}

int PtlCTCancelTriggered (ptl_handle_ct_t handle)
{
    struct ptl_ct *ct;
    int rc = find_ct (handle, &ct);

    if (rc == PTL_OK)
        ptl_ct_cancel (ct);
    return rc;
}

/* ---- data movement ---- */

int PtlPut (ptl_handle_md_t handle, ptl_size_t local_offset,
            ptl_size_t length, ptl_ack_req_t ack, ptl_process_t target,
            ptl_pt_index_t index, ptl_match_bits_t match_bits,
            ptl_size_t remote_offset, void *user_ptr,
            ptl_hdr_data_t hdr_data)
{
    struct ptl_put_args args = {
        local_offset, length, ack, target.phys.nid, target.phys.pid, index,
        match_bits, remote_offset, hdr_data, user_ptr,
    };
    struct ptl_md *md;
    int rc = ptl_handle_find (handle, PTL_HANDLE_MD, &md);

    if (rc != PTL_OK)
        return rc;
    md->ni->now_ms = ptl_clock_ns () / 1000000;
    return ptl_api_done (md->ni, ptl_put (md, &args, NULL, 0));
}

int PtlTriggeredPut (ptl_handle_md_t handle, ptl_size_t local_offset,
                     ptl_size_t length, ptl_ack_req_t ack,
                     ptl_process_t target, ptl_pt_index_t index,
                     ptl_match_bits_t match_bits, ptl_size_t remote_offset,
                     void *user_ptr, ptl_hdr_data_t hdr_data,
                     ptl_handle_ct_t trigger, ptl_size_t threshold)
{
    struct ptl_put_args args = {
        local_offset, length, ack, target.phys.nid, target.phys.pid, index,
        match_bits, remote_offset, hdr_data, user_ptr,
    };
    struct ptl_md *md;
    struct ptl_ct *ct;
    int rc;

    if ((rc = ptl_handle_find (handle, PTL_HANDLE_MD, &md)) != PTL_OK
        || (rc = find_ct (trigger, &ct)) != PTL_OK)
        return rc;
    if (ct->ni != md->ni)
        return PTL_ARG_INVALID;
    return ptl_api_done (md->ni, ptl_put (md, &args, ct, threshold));
}
