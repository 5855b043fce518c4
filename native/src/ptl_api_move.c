/* ptl_api_move.c - public calls: data movement and triggered operations. */
#include "ptl_api.h"
#include "ptl_ct.h"
#include "ptl_map.h"
#include "ptl_md.h"
#include "ptl_put.h"

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
    int rc = ptl_api_md (handle, &md);

    if (rc != PTL_OK)
        return rc;
    return ptl_leave (md->ni->end, ptl_put (md, &args, NULL, 0));
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
    int rc = ptl_api_md (handle, &md);

    if (rc != PTL_OK)
        return rc;
    if (ptl_api_find_ct (md->ni, trigger, &ct) != PTL_OK || !ct)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    return ptl_leave (md->ni->end, ptl_put (md, &args, ct, threshold));
}
