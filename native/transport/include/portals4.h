/* portals4.h - the Portals 4.3 Network Programming Interface.
 *
 * The specification ("The Portals 4.3 Network Programming Interface", Sandia)
 * is the manual of every call; what is written here is what an implementation
 * chooses. portals4_ext.h has what our daemons need beyond it.
 *
 * Every call returns PTL_NO_INIT before PtlInit and in a forked child (an
 * object belongs to the process that made it; there, PtlInit fails), and PTL_ARG_INVALID for a handle
 * that is freed, foreign or of another kind, for an unknown option and for a
 * null pointer where a result goes. What a call returns besides is said at it;
 * docs/PORTALS.md has the program that shows it.
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
#define PTL_MAJOR_VERSION 4
#define PTL_MINOR_VERSION 3

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
typedef uint32_t ptl_time_t; /* milliseconds */
typedef int ptl_sr_value_t;

/* Handles are compared with == ; these are constants, and name nothing. One
 * that was never set, in memory of zeros, is invalid: that is not "none". */
#define PTL_INVALID_HANDLE 0u
#define PTL_EQ_NONE 0x2fffffffu
#define PTL_CT_NONE 0x3fffffffu
#define PTL_IFACE_DEFAULT 0u
#define PTL_NID_ANY 0xffffffffu /* 65535 is a port, hence not -1 of 16 bits */
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

/* Features of an interface, beside its limits. */
#define PTL_TARGET_BIND_INACCESSIBLE (1u << 0)
#define PTL_TOTAL_DATA_ORDERING (1u << 1)
#define PTL_COHERENT_ATOMICS (1u << 2)

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
#define PTL_IOVEC (1u << 0) /* start: ptl_iovec_t[length]; of entries, too */
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
    void *iov_base;
    ptl_size_t iov_len;
} ptl_iovec_t;

typedef struct {
    void *start;
    ptl_size_t length;
    unsigned int options;
    ptl_handle_eq_t eq_handle;
    ptl_handle_ct_t ct_handle;
} ptl_md_t;

/* Options of a list entry, and of a match entry as far as they go. */
#define PTL_LE_OP_PUT (1u << 1)
#define PTL_LE_OP_GET (1u << 2)
#define PTL_LE_USE_ONCE (1u << 3)
#define PTL_LE_ACK_DISABLE (1u << 4)
#define PTL_LE_EVENT_COMM_DISABLE (1u << 5)
#define PTL_LE_EVENT_FLOWCTRL_DISABLE (1u << 6)
#define PTL_LE_EVENT_SUCCESS_DISABLE (1u << 7)
#define PTL_LE_EVENT_OVER_DISABLE (1u << 8)
#define PTL_LE_EVENT_LINK_DISABLE (1u << 9)
#define PTL_LE_EVENT_UNLINK_DISABLE (1u << 10)
#define PTL_LE_EVENT_CT_COMM (1u << 11)
#define PTL_LE_EVENT_CT_OVERFLOW (1u << 12)
#define PTL_LE_EVENT_CT_BYTES (1u << 13)
#define PTL_LE_UNEXPECTED_HDR_DISABLE (1u << 14)
#define PTL_LE_IS_ACCESSIBLE (1u << 15)

#define PTL_ME_OP_PUT PTL_LE_OP_PUT
#define PTL_ME_OP_GET PTL_LE_OP_GET
#define PTL_ME_USE_ONCE PTL_LE_USE_ONCE
#define PTL_ME_ACK_DISABLE PTL_LE_ACK_DISABLE
#define PTL_ME_EVENT_COMM_DISABLE PTL_LE_EVENT_COMM_DISABLE
#define PTL_ME_EVENT_FLOWCTRL_DISABLE PTL_LE_EVENT_FLOWCTRL_DISABLE
#define PTL_ME_EVENT_SUCCESS_DISABLE PTL_LE_EVENT_SUCCESS_DISABLE
#define PTL_ME_EVENT_OVER_DISABLE PTL_LE_EVENT_OVER_DISABLE
#define PTL_ME_EVENT_LINK_DISABLE PTL_LE_EVENT_LINK_DISABLE
#define PTL_ME_EVENT_UNLINK_DISABLE PTL_LE_EVENT_UNLINK_DISABLE
#define PTL_ME_EVENT_CT_COMM PTL_LE_EVENT_CT_COMM
#define PTL_ME_EVENT_CT_OVERFLOW PTL_LE_EVENT_CT_OVERFLOW
#define PTL_ME_EVENT_CT_BYTES PTL_LE_EVENT_CT_BYTES
#define PTL_ME_UNEXPECTED_HDR_DISABLE PTL_LE_UNEXPECTED_HDR_DISABLE
#define PTL_ME_IS_ACCESSIBLE PTL_LE_IS_ACCESSIBLE
#define PTL_ME_MANAGE_LOCAL (1u << 17)
#define PTL_ME_NO_TRUNCATE (1u << 18)
#define PTL_ME_MAY_ALIGN (1u << 19)
#define PTL_ME_LOCAL_INC_UH_RLENGTH (1u << 20)

typedef enum { PTL_PRIORITY_LIST, PTL_OVERFLOW_LIST } ptl_list_t;
typedef enum { PTL_SEARCH_ONLY, PTL_SEARCH_DELETE } ptl_search_op_t;

typedef struct {
    void *start;
    ptl_size_t length;
    ptl_handle_ct_t ct_handle;
    ptl_uid_t uid;
    unsigned int options;
} ptl_le_t;

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
    PTL_MIN,
    PTL_MAX,
    PTL_SUM,
    PTL_PROD,
    PTL_LOR,
    PTL_LAND,
    PTL_BOR,
    PTL_BAND,
    PTL_LXOR,
    PTL_BXOR,
    PTL_SWAP,
    PTL_CSWAP,
    PTL_CSWAP_NE,
    PTL_CSWAP_LE,
    PTL_CSWAP_LT,
    PTL_CSWAP_GE,
    PTL_CSWAP_GT,
    PTL_MSWAP
} ptl_op_t;

typedef enum {
    PTL_INT8_T,
    PTL_UINT8_T,
    PTL_INT16_T,
    PTL_UINT16_T,
    PTL_INT32_T,
    PTL_UINT32_T,
    PTL_FLOAT,
    PTL_FLOAT_COMPLEX,
    PTL_INT64_T,
    PTL_UINT64_T,
    PTL_DOUBLE,
    PTL_DOUBLE_COMPLEX,
    PTL_LONG_DOUBLE,
    PTL_LONG_DOUBLE_COMPLEX
} ptl_datatype_t;

typedef enum {
    PTL_SR_DROP_COUNT,
    PTL_SR_PERMISSION_VIOLATIONS,
    PTL_SR_OPERATION_VIOLATIONS
} ptl_sr_index_t;

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
    ptl_op_t atomic_operation;
    ptl_datatype_t atomic_type;
} ptl_event_t;

typedef struct {
    ptl_size_t success;
    ptl_size_t failure;
} ptl_ct_event_t;

/* ---- library (spec 3.5) ----
 *
 * PtlInit is counted; the last PtlFini ends every interface. PtlAbort makes all
 * present and later waits and polls return PTL_ABORTED, until that PtlFini.
 *   PtlInit: PTL_FAIL (in a forked child).
 */
PTL_API int PtlInit (void);
PTL_API void PtlFini (void);
PTL_API void PtlAbort (void);

/* ---- network interfaces (spec 3.6) ----
 *
 * A process has four, one of each pair of options; they share one id and are
 * counted. A limit above 0 is granted as it is wished, as far as we can;
 * 0 means the default.
 *   PtlNIInit: PTL_PID_IN_USE (the port is taken, or the process has another
 *   pid already), PTL_NO_SPACE, PTL_FAIL (the system refused; errno says why).
 *   PtlSetMap: PTL_NO_SPACE; PTL_IGNORED never.
 *   PtlGetMap: PTL_NO_SPACE (there is none).
 */
PTL_API int PtlNIInit (ptl_interface_t iface, unsigned int options,
                       ptl_pid_t pid, const ptl_ni_limits_t *desired,
                       ptl_ni_limits_t *actual, ptl_handle_ni_t *ni);
PTL_API int PtlNIFini (ptl_handle_ni_t ni);
PTL_API int PtlNIStatus (ptl_handle_ni_t ni, ptl_sr_index_t index,
                         ptl_sr_value_t *value);
PTL_API int PtlNIHandle (ptl_handle_any_t handle, ptl_handle_ni_t *ni);
PTL_API int PtlSetMap (ptl_handle_ni_t ni, ptl_size_t map_size,
                       const ptl_process_t *mapping);
PTL_API int PtlGetMap (ptl_handle_ni_t ni, ptl_size_t map_size,
                       ptl_process_t *mapping, ptl_size_t *actual_map_size);
PTL_API int PtlGetUid (ptl_handle_ni_t ni, ptl_uid_t *uid);
PTL_API int PtlGetId (ptl_handle_ni_t ni, ptl_process_t *id);
PTL_API int PtlGetPhysId (ptl_handle_ni_t ni, ptl_process_t *id);

/* Not zero when both name the same object. */
PTL_API int PtlHandleIsEqual (ptl_handle_any_t a, ptl_handle_any_t b);

/* ---- portal table (spec 3.7) ----
 *   PtlPTAlloc: PTL_PT_FULL, PTL_PT_IN_USE, PTL_PT_EQ_NEEDED, PTL_NO_SPACE.
 *   PtlPTFree: PTL_PT_IN_USE (there are entries, or headers).
 */
PTL_API int PtlPTAlloc (ptl_handle_ni_t ni, unsigned int options,
                        ptl_handle_eq_t eq, ptl_pt_index_t wanted,
                        ptl_pt_index_t *index);
PTL_API int PtlPTFree (ptl_handle_ni_t ni, ptl_pt_index_t index);
PTL_API int PtlPTDisable (ptl_handle_ni_t ni, ptl_pt_index_t index);
PTL_API int PtlPTEnable (ptl_handle_ni_t ni, ptl_pt_index_t index);

/* ---- memory descriptors (spec 3.10) ----
 *   PtlMDBind: PTL_NO_SPACE. PtlMDRelease: PTL_IN_USE (an operation is pending).
 */
PTL_API int PtlMDBind (ptl_handle_ni_t ni, const ptl_md_t *md,
                       ptl_handle_md_t *handle);
PTL_API int PtlMDRelease (ptl_handle_md_t md);

/* ---- list entries (spec 3.11): interfaces without matching ----
 *   PtlLEAppend: PTL_NO_SPACE, PTL_LIST_TOO_LONG.
 *   PtlLEUnlink: PTL_IN_USE while bytes land in it, or a header that it holds
 *   has not been taken.
 *   PtlLESearch: PTL_NO_SPACE.
 */
PTL_API int PtlLEAppend (ptl_handle_ni_t ni, ptl_pt_index_t index,
                         const ptl_le_t *le, ptl_list_t list, void *user_ptr,
                         ptl_handle_le_t *handle);
PTL_API int PtlLEUnlink (ptl_handle_le_t le);
PTL_API int PtlLESearch (ptl_handle_ni_t ni, ptl_pt_index_t index,
                         const ptl_le_t *le, ptl_search_op_t operation,
                         void *user_ptr);

/* ---- match entries (spec 3.12): interfaces with matching; likewise ----
 *   PtlMEAppend: PTL_NO_SPACE, PTL_LIST_TOO_LONG.
 *   PtlMEUnlink: PTL_IN_USE.
 *   PtlMESearch: PTL_NO_SPACE.
 */
PTL_API int PtlMEAppend (ptl_handle_ni_t ni, ptl_pt_index_t index,
                         const ptl_me_t *me, ptl_list_t list, void *user_ptr,
                         ptl_handle_me_t *handle);
PTL_API int PtlMEUnlink (ptl_handle_me_t me);
PTL_API int PtlMESearch (ptl_handle_ni_t ni, ptl_pt_index_t index,
                         const ptl_me_t *me, ptl_search_op_t operation,
                         void *user_ptr);

/* ---- event queues (spec 3.13) ----
 *   PtlEQAlloc: PTL_NO_SPACE; PTL_ARG_INVALID for no event, or more than 2^20.
 *   PtlEQFree: none; what posts to it posts nowhere from then on.
 *   PtlEQGet, PtlEQWait, PtlEQPoll: PTL_EQ_DROPPED (an event was lost before the
 *   one given).
 *   PtlEQGet, PtlEQPoll: PTL_EQ_EMPTY.
 *   PtlEQWait, PtlEQPoll: PTL_ABORTED, PTL_INTERRUPTED (the queue was freed
 *   meanwhile).
 */
PTL_API int PtlEQAlloc (ptl_handle_ni_t ni, ptl_size_t count,
                        ptl_handle_eq_t *eq);
PTL_API int PtlEQFree (ptl_handle_eq_t eq);
PTL_API int PtlEQGet (ptl_handle_eq_t eq, ptl_event_t *event);
PTL_API int PtlEQWait (ptl_handle_eq_t eq, ptl_event_t *event);
PTL_API int PtlEQPoll (const ptl_handle_eq_t *eqs, unsigned int size,
                       ptl_time_t timeout, ptl_event_t *event,
                       unsigned int *which);

/* ---- counting events (spec 3.14) ----
 *   PtlCTAlloc: PTL_NO_SPACE.
 *   PtlCTFree: none; what counts there counts nowhere, and what it triggers is
 *   discarded.
 *   PtlCTWait, PtlCTPoll: PTL_ABORTED, PTL_INTERRUPTED.
 *   PtlCTPoll: PTL_CT_NONE_REACHED.
 */
PTL_API int PtlCTAlloc (ptl_handle_ni_t ni, ptl_handle_ct_t *ct);
PTL_API int PtlCTFree (ptl_handle_ct_t ct);
PTL_API int PtlCTGet (ptl_handle_ct_t ct, ptl_ct_event_t *event);
PTL_API int PtlCTWait (ptl_handle_ct_t ct, ptl_size_t test,
                       ptl_ct_event_t *event);
PTL_API int PtlCTPoll (const ptl_handle_ct_t *cts, const ptl_size_t *tests,
                       unsigned int size, ptl_time_t timeout,
                       ptl_ct_event_t *event, unsigned int *which);
PTL_API int PtlCTSet (ptl_handle_ct_t ct, ptl_ct_event_t value);
PTL_API int PtlCTInc (ptl_handle_ct_t ct, ptl_ct_event_t increment);
PTL_API int PtlCTCancelTriggered (ptl_handle_ct_t ct);

/* ---- data movement (spec 3.15) ----
 *   PTL_ARG_INVALID also for bytes outside the descriptor, for a length above
 *   the limits, and for an ack whose queue or counter the descriptor lacks.
 *   PtlPut, PtlGet, PtlAtomic, PtlFetchAtomic, PtlSwap: PTL_NO_SPACE.
 */
PTL_API int PtlPut (ptl_handle_md_t md, ptl_size_t local_offset,
                    ptl_size_t length, ptl_ack_req_t ack,
                    ptl_process_t target, ptl_pt_index_t index,
                    ptl_match_bits_t match_bits, ptl_size_t remote_offset,
                    void *user_ptr, ptl_hdr_data_t hdr_data);
PTL_API int PtlGet (ptl_handle_md_t md, ptl_size_t local_offset,
                    ptl_size_t length, ptl_process_t target,
                    ptl_pt_index_t index, ptl_match_bits_t match_bits,
                    ptl_size_t remote_offset, void *user_ptr);
PTL_API int PtlAtomic (ptl_handle_md_t md, ptl_size_t local_offset,
                       ptl_size_t length, ptl_ack_req_t ack,
                       ptl_process_t target, ptl_pt_index_t index,
                       ptl_match_bits_t match_bits, ptl_size_t remote_offset,
                       void *user_ptr, ptl_hdr_data_t hdr_data,
                       ptl_op_t operation, ptl_datatype_t datatype);
PTL_API int PtlFetchAtomic (ptl_handle_md_t get_md,
                            ptl_size_t local_get_offset,
                            ptl_handle_md_t put_md,
                            ptl_size_t local_put_offset, ptl_size_t length,
                            ptl_process_t target, ptl_pt_index_t index,
                            ptl_match_bits_t match_bits,
                            ptl_size_t remote_offset, void *user_ptr,
                            ptl_hdr_data_t hdr_data, ptl_op_t operation,
                            ptl_datatype_t datatype);
PTL_API int PtlSwap (ptl_handle_md_t get_md, ptl_size_t local_get_offset,
                     ptl_handle_md_t put_md, ptl_size_t local_put_offset,
                     ptl_size_t length, ptl_process_t target,
                     ptl_pt_index_t index, ptl_match_bits_t match_bits,
                     ptl_size_t remote_offset, void *user_ptr,
                     ptl_hdr_data_t hdr_data, const void *operand,
                     ptl_op_t operation, ptl_datatype_t datatype);
PTL_API int PtlAtomicSync (void);

/* ---- triggered operations (spec 3.16) ----
 *   All: PTL_NO_SPACE (as many wait as the limit lets).
 */
PTL_API int PtlTriggeredPut (ptl_handle_md_t md, ptl_size_t local_offset,
                             ptl_size_t length, ptl_ack_req_t ack,
                             ptl_process_t target, ptl_pt_index_t index,
                             ptl_match_bits_t match_bits,
                             ptl_size_t remote_offset, void *user_ptr,
                             ptl_hdr_data_t hdr_data, ptl_handle_ct_t trigger,
                             ptl_size_t threshold);
PTL_API int PtlTriggeredGet (ptl_handle_md_t md, ptl_size_t local_offset,
                             ptl_size_t length, ptl_process_t target,
                             ptl_pt_index_t index,
                             ptl_match_bits_t match_bits,
                             ptl_size_t remote_offset, void *user_ptr,
                             ptl_handle_ct_t trigger, ptl_size_t threshold);
PTL_API int
PtlTriggeredAtomic (ptl_handle_md_t md, ptl_size_t local_offset,
                    ptl_size_t length, ptl_ack_req_t ack,
                    ptl_process_t target, ptl_pt_index_t index,
                    ptl_match_bits_t match_bits, ptl_size_t remote_offset,
                    void *user_ptr, ptl_hdr_data_t hdr_data,
                    ptl_op_t operation, ptl_datatype_t datatype,
                    ptl_handle_ct_t trigger, ptl_size_t threshold);
PTL_API int
PtlTriggeredFetchAtomic (ptl_handle_md_t get_md, ptl_size_t local_get_offset,
                         ptl_handle_md_t put_md, ptl_size_t local_put_offset,
                         ptl_size_t length, ptl_process_t target,
                         ptl_pt_index_t index, ptl_match_bits_t match_bits,
                         ptl_size_t remote_offset, void *user_ptr,
                         ptl_hdr_data_t hdr_data, ptl_op_t operation,
                         ptl_datatype_t datatype, ptl_handle_ct_t trigger,
                         ptl_size_t threshold);
PTL_API int
PtlTriggeredSwap (ptl_handle_md_t get_md, ptl_size_t local_get_offset,
                  ptl_handle_md_t put_md, ptl_size_t local_put_offset,
                  ptl_size_t length, ptl_process_t target,
                  ptl_pt_index_t index, ptl_match_bits_t match_bits,
                  ptl_size_t remote_offset, void *user_ptr,
                  ptl_hdr_data_t hdr_data, const void *operand,
                  ptl_op_t operation, ptl_datatype_t datatype,
                  ptl_handle_ct_t trigger, ptl_size_t threshold);
PTL_API int PtlTriggeredCTSet (ptl_handle_ct_t ct, ptl_ct_event_t value,
                               ptl_handle_ct_t trigger, ptl_size_t threshold);
PTL_API int PtlTriggeredCTInc (ptl_handle_ct_t ct, ptl_ct_event_t increment,
                               ptl_handle_ct_t trigger, ptl_size_t threshold);

/* Beyond the specification: the entry is validated now and linked when the
 * counter gets there; its handle is valid at once. An entry that is gone by
 * then has no effect.
 *   PtlTriggeredLEAppend, PtlTriggeredMEAppend: PTL_LIST_TOO_LONG.
 */
PTL_API int PtlTriggeredLEAppend (ptl_handle_ni_t ni, ptl_pt_index_t index,
                                  const ptl_le_t *le, ptl_list_t list,
                                  void *user_ptr, ptl_handle_le_t *handle,
                                  ptl_handle_ct_t trigger,
                                  ptl_size_t threshold);
PTL_API int PtlTriggeredLEUnlink (ptl_handle_le_t le, ptl_handle_ct_t trigger,
                                  ptl_size_t threshold);
PTL_API int PtlTriggeredMEAppend (ptl_handle_ni_t ni, ptl_pt_index_t index,
                                  const ptl_me_t *me, ptl_list_t list,
                                  void *user_ptr, ptl_handle_me_t *handle,
                                  ptl_handle_ct_t trigger,
                                  ptl_size_t threshold);
PTL_API int PtlTriggeredMEUnlink (ptl_handle_me_t me, ptl_handle_ct_t trigger,
                                  ptl_size_t threshold);

/* ---- bundles (spec 3.17): operations in between may be sent together ----
 *   PtlEndBundle: PTL_ARG_INVALID (none is open).
 */
PTL_API int PtlStartBundle (ptl_handle_ni_t ni);
PTL_API int PtlEndBundle (ptl_handle_ni_t ni);

#ifdef __cplusplus
}
#endif
#endif
