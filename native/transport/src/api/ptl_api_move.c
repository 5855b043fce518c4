/* ptl_api_move.c - public calls: data movement, and bundles of it. */
#include "ptl_api.h"
#include "ptl_ct.h"
#include "ptl_md.h"
#include "ptl_move.h"
#include "ptl_shared.h"

/* Calls with and without a trigger share this: arguments become those of
 * ptl_move, handles become objects. */

/* Begin a call on one or two descriptors. The lock is held afterwards. */
static int find (struct ptl_move *move, const ptl_handle_md_t *handle,
                 const ptl_handle_md_t *get_handle)
{
    struct ptl_md **at = handle ? &move->md : &move->get_md;
    int rc = ptl_api_md (handle ? *handle : *get_handle, at);

    if (rc != PTL_OK || !handle || !get_handle)
        return rc;
    rc = ptl_handle_find (*get_handle, PTL_HANDLE_MD, &move->get_md);
    return rc == PTL_OK ? rc : ptl_leave (NULL, rc);
}

static int move_it (const struct ptl_move *move)
{
    const struct ptl_ni *ni = (move->md ? move->md : move->get_md)->ni;

    if (ptl_ni_is_logical (ni) && !ni->map)
        ptl_shared_lacks_map ();
    return ptl_leave (ni->end, ptl_move (move));
}

static int run (struct ptl_move *move, const ptl_handle_md_t *handle,
                const ptl_handle_md_t *get_handle)
{
    int rc = find (move, handle, get_handle);

    return rc == PTL_OK ? move_it (move) : rc;
}

static int run_triggered (struct ptl_move *move,
                          const ptl_handle_md_t *handle,
                          const ptl_handle_md_t *get_handle,
                          ptl_handle_ct_t trigger, ptl_size_t threshold)
{
    int rc = find (move, handle, get_handle);

    if (rc != PTL_OK)
        return rc;
    if (ptl_handle_find (trigger, PTL_HANDLE_CT, &move->trigger) != PTL_OK)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    move->threshold = threshold;
    return move_it (move);
}

/* ---- at once ---- */

int PtlPut (ptl_handle_md_t md, ptl_size_t local_offset, ptl_size_t length,
            ptl_ack_req_t ack, ptl_process_t target, ptl_pt_index_t index,
            ptl_match_bits_t match_bits, ptl_size_t remote_offset,
            void *user_ptr, ptl_hdr_data_t hdr_data)
{
    struct ptl_move move = {
        .type = PTL_FRAME_PUT,
        .at = local_offset,
        .length = length,
        .ack = ack,
        .target = target,
        .pt_index = index,
        .match_bits = match_bits,
        .remote_offset = remote_offset,
        .hdr_data = hdr_data,
        .user_ptr = user_ptr,
    };

    return run (&move, &md, NULL);
}

int PtlGet (ptl_handle_md_t md, ptl_size_t local_offset, ptl_size_t length,
            ptl_process_t target, ptl_pt_index_t index,
            ptl_match_bits_t match_bits, ptl_size_t remote_offset,
            void *user_ptr)
{
    struct ptl_move move = {
        .type = PTL_FRAME_GET,
        .get_at = local_offset,
        .length = length,
        .target = target,
        .pt_index = index,
        .match_bits = match_bits,
        .remote_offset = remote_offset,
        .user_ptr = user_ptr,
    };

    return run (&move, NULL, &md);
}

int PtlAtomic (ptl_handle_md_t md, ptl_size_t local_offset, ptl_size_t length,
               ptl_ack_req_t ack, ptl_process_t target, ptl_pt_index_t index,
               ptl_match_bits_t match_bits, ptl_size_t remote_offset,
               void *user_ptr, ptl_hdr_data_t hdr_data, ptl_op_t operation,
               ptl_datatype_t datatype)
{
    struct ptl_move move = {
        .type = PTL_FRAME_ATOMIC,
        .at = local_offset,
        .length = length,
        .ack = ack,
        .target = target,
        .pt_index = index,
        .match_bits = match_bits,
        .remote_offset = remote_offset,
        .hdr_data = hdr_data,
        .user_ptr = user_ptr,
        .operation = operation,
        .datatype = datatype,
    };

    return run (&move, &md, NULL);
}

int PtlFetchAtomic (ptl_handle_md_t get_md, ptl_size_t local_get_offset,
                    ptl_handle_md_t put_md, ptl_size_t local_put_offset,
                    ptl_size_t length, ptl_process_t target,
                    ptl_pt_index_t index, ptl_match_bits_t match_bits,
                    ptl_size_t remote_offset, void *user_ptr,
                    ptl_hdr_data_t hdr_data, ptl_op_t operation,
                    ptl_datatype_t datatype)
{
    struct ptl_move move = {
        .type = PTL_FRAME_FETCH,
        .at = local_put_offset,
        .get_at = local_get_offset,
        .length = length,
        .target = target,
        .pt_index = index,
        .match_bits = match_bits,
        .remote_offset = remote_offset,
        .hdr_data = hdr_data,
        .user_ptr = user_ptr,
        .operation = operation,
        .datatype = datatype,
    };

    return run (&move, &put_md, &get_md);
}

int PtlSwap (ptl_handle_md_t get_md, ptl_size_t local_get_offset,
             ptl_handle_md_t put_md, ptl_size_t local_put_offset,
             ptl_size_t length, ptl_process_t target, ptl_pt_index_t index,
             ptl_match_bits_t match_bits, ptl_size_t remote_offset,
             void *user_ptr, ptl_hdr_data_t hdr_data, const void *operand,
             ptl_op_t operation, ptl_datatype_t datatype)
{
    struct ptl_move move = {
        .type = PTL_FRAME_FETCH,
        .at = local_put_offset,
        .get_at = local_get_offset,
        .length = length,
        .target = target,
        .pt_index = index,
        .match_bits = match_bits,
        .remote_offset = remote_offset,
        .hdr_data = hdr_data,
        .user_ptr = user_ptr,
        .is_swap = true,
        .operand = operand,
        .operation = operation,
        .datatype = datatype,
    };

    return run (&move, &put_md, &get_md);
}

/* While a call has the lock, each operation has ended or not begun: there is
 * nothing to wait for. */
int PtlAtomicSync (void)
{
    int rc = ptl_enter ();

    return rc == PTL_OK ? ptl_leave (NULL, PTL_OK) : rc;
}

/* ---- when a counter says so ---- */

int PtlTriggeredPut (ptl_handle_md_t md, ptl_size_t local_offset,
                     ptl_size_t length, ptl_ack_req_t ack,
                     ptl_process_t target, ptl_pt_index_t index,
                     ptl_match_bits_t match_bits, ptl_size_t remote_offset,
                     void *user_ptr, ptl_hdr_data_t hdr_data,
                     ptl_handle_ct_t trigger, ptl_size_t threshold)
{
    struct ptl_move move = {
        .type = PTL_FRAME_PUT,
        .at = local_offset,
        .length = length,
        .ack = ack,
        .target = target,
        .pt_index = index,
        .match_bits = match_bits,
        .remote_offset = remote_offset,
        .hdr_data = hdr_data,
        .user_ptr = user_ptr,
    };

    return run_triggered (&move, &md, NULL, trigger, threshold);
}

int PtlTriggeredGet (ptl_handle_md_t md, ptl_size_t local_offset,
                     ptl_size_t length, ptl_process_t target,
                     ptl_pt_index_t index, ptl_match_bits_t match_bits,
                     ptl_size_t remote_offset, void *user_ptr,
                     ptl_handle_ct_t trigger, ptl_size_t threshold)
{
    struct ptl_move move = {
        .type = PTL_FRAME_GET,
        .get_at = local_offset,
        .length = length,
        .target = target,
        .pt_index = index,
        .match_bits = match_bits,
        .remote_offset = remote_offset,
        .user_ptr = user_ptr,
    };

    return run_triggered (&move, NULL, &md, trigger, threshold);
}

int PtlTriggeredAtomic (ptl_handle_md_t md, ptl_size_t local_offset,
                        ptl_size_t length, ptl_ack_req_t ack,
                        ptl_process_t target, ptl_pt_index_t index,
                        ptl_match_bits_t match_bits,
                        ptl_size_t remote_offset, void *user_ptr,
                        ptl_hdr_data_t hdr_data, ptl_op_t operation,
                        ptl_datatype_t datatype, ptl_handle_ct_t trigger,
                        ptl_size_t threshold)
{
    struct ptl_move move = {
        .type = PTL_FRAME_ATOMIC,
        .at = local_offset,
        .length = length,
        .ack = ack,
        .target = target,
        .pt_index = index,
        .match_bits = match_bits,
        .remote_offset = remote_offset,
        .hdr_data = hdr_data,
        .user_ptr = user_ptr,
        .operation = operation,
        .datatype = datatype,
    };

    return run_triggered (&move, &md, NULL, trigger, threshold);
}

int PtlTriggeredFetchAtomic (ptl_handle_md_t get_md,
                             ptl_size_t local_get_offset,
                             ptl_handle_md_t put_md,
                             ptl_size_t local_put_offset, ptl_size_t length,
                             ptl_process_t target, ptl_pt_index_t index,
                             ptl_match_bits_t match_bits,
                             ptl_size_t remote_offset, void *user_ptr,
                             ptl_hdr_data_t hdr_data, ptl_op_t operation,
                             ptl_datatype_t datatype, ptl_handle_ct_t trigger,
                             ptl_size_t threshold)
{
    struct ptl_move move = {
        .type = PTL_FRAME_FETCH,
        .at = local_put_offset,
        .get_at = local_get_offset,
        .length = length,
        .target = target,
        .pt_index = index,
        .match_bits = match_bits,
        .remote_offset = remote_offset,
        .hdr_data = hdr_data,
        .user_ptr = user_ptr,
        .operation = operation,
        .datatype = datatype,
    };

    return run_triggered (&move, &put_md, &get_md, trigger, threshold);
}

int PtlTriggeredSwap (ptl_handle_md_t get_md, ptl_size_t local_get_offset,
                      ptl_handle_md_t put_md, ptl_size_t local_put_offset,
                      ptl_size_t length, ptl_process_t target,
                      ptl_pt_index_t index, ptl_match_bits_t match_bits,
                      ptl_size_t remote_offset, void *user_ptr,
                      ptl_hdr_data_t hdr_data, const void *operand,
                      ptl_op_t operation, ptl_datatype_t datatype,
                      ptl_handle_ct_t trigger, ptl_size_t threshold)
{
    struct ptl_move move = {
        .type = PTL_FRAME_FETCH,
        .at = local_put_offset,
        .get_at = local_get_offset,
        .length = length,
        .target = target,
        .pt_index = index,
        .match_bits = match_bits,
        .remote_offset = remote_offset,
        .hdr_data = hdr_data,
        .user_ptr = user_ptr,
        .is_swap = true,
        .operand = operand,
        .operation = operation,
        .datatype = datatype,
    };

    return run_triggered (&move, &put_md, &get_md, trigger, threshold);
}

static int change (ptl_handle_ct_t handle, ptl_ct_event_t value, bool is_set,
                   ptl_handle_ct_t trigger, ptl_size_t threshold)
{
    struct ptl_ct *ct, *its;
    int rc = ptl_api_ct (handle, &ct);

    if (rc != PTL_OK)
        return rc;
    if (ptl_handle_find (trigger, PTL_HANDLE_CT, &its) != PTL_OK
        || its->ni != ct->ni)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    return ptl_leave (ct->ni->end,
                      ptl_ct_change (ct, value, is_set, its, threshold));
}

int PtlTriggeredCTInc (ptl_handle_ct_t ct, ptl_ct_event_t increment,
                       ptl_handle_ct_t trigger, ptl_size_t threshold)
{
    return change (ct, increment, false, trigger, threshold);
}

int PtlTriggeredCTSet (ptl_handle_ct_t ct, ptl_ct_event_t value,
                       ptl_handle_ct_t trigger, ptl_size_t threshold)
{
    return change (ct, value, true, trigger, threshold);
}

/* ---- bundles ---- */

int PtlStartBundle (ptl_handle_ni_t handle)
{
    struct ptl_ni *ni;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    ni->n_bundles++;
    ni->end->n_bundles++;
    return ptl_leave (NULL, PTL_OK);
}

int PtlEndBundle (ptl_handle_ni_t handle)
{
    struct ptl_ni *ni;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (ni->n_bundles == 0)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    ni->n_bundles--;
    ni->end->n_bundles--;
    return ptl_leave (ni->end, PTL_OK);
}
