/* portals4.h - the Portals 4.3 Network Programming Interface.
 *
 * The specification ("The Portals 4.3 Network Programming Interface", Sandia)
 * is the manual of every call; what is written here is what an implementation
 * chooses. This header grows with the implementation: what is not declared is
 * not there yet. portals4_ext.h has what our daemons need beyond it.
 *
 * An object belongs to the process that made it: in a forked child each call
 * returns PTL_NO_INIT.
 */
#ifndef PORTALS4_H
#define PORTALS4_H

#include <stddef.h>
#include <stdint.h>

#include "portals4_err.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PTL_API __attribute__ ((visibility ("default")))

/* Basic types (spec 3.2) */
typedef uint64_t ptl_size_t;
typedef uint32_t ptl_handle_any_t;
typedef ptl_handle_any_t ptl_handle_ni_t;
typedef ptl_handle_any_t ptl_handle_eq_t;
typedef ptl_handle_any_t ptl_handle_ct_t;
typedef ptl_handle_any_t ptl_handle_md_t;
typedef ptl_handle_any_t ptl_handle_me_t;
typedef ptl_handle_any_t ptl_handle_le_t;
typedef uint32_t ptl_nid_t;
typedef uint32_t ptl_pid_t;
typedef uint32_t ptl_rank_t;
typedef uint32_t ptl_uid_t;
typedef uint32_t ptl_pt_index_t;
typedef uint32_t ptl_interface_t;
typedef uint64_t ptl_match_bits_t;
typedef uint64_t ptl_hdr_data_t;
typedef uint32_t ptl_time_t;

#define PTL_INVALID_HANDLE 0u
#define PTL_EQ_NONE PTL_INVALID_HANDLE
#define PTL_CT_NONE PTL_INVALID_HANDLE
#define PTL_IFACE_DEFAULT 0u
#define PTL_NID_ANY 0xffffffffu /* 65535 is a port, so not the short forms */
#define PTL_PID_ANY 0xffffffffu
#define PTL_UID_ANY 0xffffffffu
#define PTL_RANK_ANY 0xffffffffu
#define PTL_PT_ANY 0xffffffffu
#define PTL_SIZE_MAX UINT64_MAX
#define PTL_TIME_FOREVER 0xffffffffu

typedef union {
    struct {
        ptl_nid_t nid;
        ptl_pid_t pid;
    } phys;
    ptl_rank_t rank;
} ptl_process_t;

typedef struct {
    int max_entries;
    int max_unexpected_headers;
    int max_mds;
    int max_cts;
    int max_eqs;
    int max_pt_index;
    int max_iovecs;
    int max_list_size;
    int max_triggered_ops;
    ptl_size_t max_msg_size;
    ptl_size_t max_atomic_size;
    ptl_size_t max_fetch_atomic_size;
    ptl_size_t max_waw_ordered_size;
    ptl_size_t max_war_ordered_size;
    ptl_size_t max_volatile_size;
    unsigned int features;
} ptl_ni_limits_t;

/* Options of an interface: one of each pair. */
#define PTL_NI_MATCHING (1u << 0)
#define PTL_NI_NO_MATCHING (1u << 1)
#define PTL_NI_LOGICAL (1u << 2)
#define PTL_NI_PHYSICAL (1u << 3)

/* Options of a portal table entry. */
#define PTL_PT_ONLY_USE_ONCE (1u << 0)
#define PTL_PT_ONLY_TRUNCATE (1u << 1)
#define PTL_PT_FLOWCTRL (1u << 2)
#define PTL_PT_ALLOC_DISABLED (1u << 3)
#define PTL_PT_MATCH_UNORDERED (1u << 4)

/* Options of a memory descriptor. */
#define PTL_IOVEC (1u << 0)
#define PTL_MD_EVENT_SUCCESS_DISABLE (1u << 1)
#define PTL_MD_EVENT_CT_SEND (1u << 2)
#define PTL_MD_EVENT_CT_REPLY (1u << 3)
#define PTL_MD_EVENT_CT_ACK (1u << 4)
#define PTL_MD_EVENT_CT_BYTES (1u << 5)
#define PTL_MD_UNORDERED (1u << 6)
#define PTL_MD_VOLATILE (1u << 7)
#define PTL_MD_EVENT_SEND_DISABLE (1u << 8)
#define PTL_MD_UNRELIABLE (1u << 9)

typedef struct {
    void *start;
    ptl_size_t length;
    unsigned int options;
    ptl_handle_eq_t eq_handle;
    ptl_handle_ct_t ct_handle;
} ptl_md_t;

/* Options of a match entry. */
#define PTL_ME_OP_PUT (1u << 1)
#define PTL_ME_OP_GET (1u << 2)
#define PTL_ME_USE_ONCE (1u << 3)
#define PTL_ME_ACK_DISABLE (1u << 4)
#define PTL_ME_EVENT_COMM_DISABLE (1u << 5)
#define PTL_ME_EVENT_FLOWCTRL_DISABLE (1u << 6)
#define PTL_ME_EVENT_SUCCESS_DISABLE (1u << 7)
#define PTL_ME_EVENT_OVER_DISABLE (1u << 8)
#define PTL_ME_EVENT_LINK_DISABLE (1u << 9)
#define PTL_ME_EVENT_UNLINK_DISABLE (1u << 10)
#define PTL_ME_EVENT_CT_COMM (1u << 11)
#define PTL_ME_EVENT_CT_OVERFLOW (1u << 12)
#define PTL_ME_EVENT_CT_BYTES (1u << 13)
#define PTL_ME_UNEXPECTED_HDR_DISABLE (1u << 14)
#define PTL_ME_IS_ACCESSIBLE (1u << 15)
#define PTL_ME_MANAGE_LOCAL (1u << 17)
#define PTL_ME_NO_TRUNCATE (1u << 18)
#define PTL_ME_MAY_ALIGN (1u << 19)
#define PTL_ME_LOCAL_INC_UH_RLENGTH (1u << 20)

typedef enum { PTL_PRIORITY_LIST, PTL_OVERFLOW_LIST } ptl_list_t;

typedef struct {
    void *start;
    ptl_size_t length;
    ptl_handle_ct_t ct_handle;
    ptl_uid_t uid;
    unsigned int options;
    ptl_process_t match_id;
    ptl_match_bits_t match_bits;
    ptl_match_bits_t ignore_bits;
    ptl_size_t min_free;
} ptl_me_t;

typedef enum {
    PTL_NO_ACK_REQ,
    PTL_ACK_REQ,
    PTL_CT_ACK_REQ,
    PTL_OC_ACK_REQ
} ptl_ack_req_t;

typedef enum {
    PTL_EVENT_GET,
    PTL_EVENT_GET_OVERFLOW,
    PTL_EVENT_PUT,
    PTL_EVENT_PUT_OVERFLOW,
    PTL_EVENT_ATOMIC,
    PTL_EVENT_ATOMIC_OVERFLOW,
    PTL_EVENT_FETCH_ATOMIC,
    PTL_EVENT_FETCH_ATOMIC_OVERFLOW,
    PTL_EVENT_REPLY,
    PTL_EVENT_SEND,
    PTL_EVENT_ACK,
    PTL_EVENT_PT_DISABLED,
    PTL_EVENT_LINK,
    PTL_EVENT_AUTO_UNLINK,
    PTL_EVENT_AUTO_FREE,
    PTL_EVENT_SEARCH
} ptl_event_kind_t;

typedef enum {
    PTL_NI_OK,
    PTL_NI_UNDELIVERABLE,
    PTL_NI_DROPPED,
    PTL_NI_PT_DISABLED,
    PTL_NI_PERM_VIOLATION,
    PTL_NI_OP_VIOLATION,
    PTL_NI_NO_MATCH,
    PTL_NI_SEGV
} ptl_ni_fail_t;

typedef struct {
    void *start;
    void *user_ptr;
    ptl_hdr_data_t hdr_data;
    ptl_match_bits_t match_bits;
    ptl_size_t rlength;
    ptl_size_t mlength;
    ptl_size_t remote_offset;
    ptl_uid_t uid;
    ptl_process_t initiator;
    ptl_event_kind_t type;
    ptl_list_t ptl_list;
    ptl_pt_index_t pt_index;
    ptl_ni_fail_t ni_fail_type;
} ptl_event_t;

typedef struct {
    ptl_size_t success;
    ptl_size_t failure;
} ptl_ct_event_t;

/* Library and interfaces (spec 3.5, 3.6).
 *   PtlNIInit: PTL_ARG_INVALID for kinds other than matching and physical;
 *   PTL_PID_IN_USE when the port is taken; PTL_NO_SPACE; PTL_FAIL.
 */
PTL_API int PtlInit (void);
PTL_API void PtlFini (void);
PTL_API int PtlNIInit (ptl_interface_t iface, unsigned int options,
                       ptl_pid_t pid, const ptl_ni_limits_t *desired,
                       ptl_ni_limits_t *actual, ptl_handle_ni_t *ni);
PTL_API int PtlNIFini (ptl_handle_ni_t ni);
PTL_API int PtlGetPhysId (ptl_handle_ni_t ni, ptl_process_t *id);
PTL_API int PtlGetId (ptl_handle_ni_t ni, ptl_process_t *id);
PTL_API int PtlGetUid (ptl_handle_ni_t ni, ptl_uid_t *uid);

/* Portal table (spec 3.7). */
PTL_API int PtlPTAlloc (ptl_handle_ni_t ni, unsigned int options,
                        ptl_handle_eq_t eq, ptl_pt_index_t wanted,
                        ptl_pt_index_t *index);
PTL_API int PtlPTFree (ptl_handle_ni_t ni, ptl_pt_index_t index);
PTL_API int PtlPTDisable (ptl_handle_ni_t ni, ptl_pt_index_t index);
PTL_API int PtlPTEnable (ptl_handle_ni_t ni, ptl_pt_index_t index);

/* Memory descriptors (spec 3.10). */
PTL_API int PtlMDBind (ptl_handle_ni_t ni, const ptl_md_t *md,
                       ptl_handle_md_t *handle);
PTL_API int PtlMDRelease (ptl_handle_md_t md);

/* Match entries (spec 3.12). PtlMEUnlink: PTL_IN_USE while an operation on
 * the entry is under way. */
PTL_API int PtlMEAppend (ptl_handle_ni_t ni, ptl_pt_index_t index,
                         const ptl_me_t *me, ptl_list_t list, void *user_ptr,
                         ptl_handle_me_t *handle);
PTL_API int PtlMEUnlink (ptl_handle_me_t me);

/* Event queues (spec 3.13). */
PTL_API int PtlEQAlloc (ptl_handle_ni_t ni, ptl_size_t count,
                        ptl_handle_eq_t *eq);
PTL_API int PtlEQFree (ptl_handle_eq_t eq);
PTL_API int PtlEQGet (ptl_handle_eq_t eq, ptl_event_t *event);

/* Counting events (spec 3.14). */
PTL_API int PtlCTAlloc (ptl_handle_ni_t ni, ptl_handle_ct_t *ct);
PTL_API int PtlCTFree (ptl_handle_ct_t ct);
PTL_API int PtlCTGet (ptl_handle_ct_t ct, ptl_ct_event_t *event);
PTL_API int PtlCTSet (ptl_handle_ct_t ct, ptl_ct_event_t value);
PTL_API int PtlCTInc (ptl_handle_ct_t ct, ptl_ct_event_t increment);
PTL_API int PtlCTCancelTriggered (ptl_handle_ct_t ct);

/* Data movement (spec 3.15) and triggered operations (spec 3.16). */
PTL_API int PtlPut (ptl_handle_md_t md, ptl_size_t local_offset,
                    ptl_size_t length, ptl_ack_req_t ack,
                    ptl_process_t target, ptl_pt_index_t index,
                    ptl_match_bits_t match_bits, ptl_size_t remote_offset,
                    void *user_ptr, ptl_hdr_data_t hdr_data);
PTL_API int PtlTriggeredPut (ptl_handle_md_t md, ptl_size_t local_offset,
                             ptl_size_t length, ptl_ack_req_t ack,
                             ptl_process_t target, ptl_pt_index_t index,
                             ptl_match_bits_t match_bits,
                             ptl_size_t remote_offset, void *user_ptr,
                             ptl_hdr_data_t hdr_data, ptl_handle_ct_t trigger,
                             ptl_size_t threshold);

#ifdef __cplusplus
}
#endif
#endif
