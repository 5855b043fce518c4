/* cdef.h - what Python sees of portals4.h and portals4_ext.h. The compiler
 * checks every line against the real headers. */

enum ptl_err { PTL_OK, PTL_ARG_INVALID, PTL_CT_NONE_REACHED, PTL_EQ_DROPPED,
    PTL_EQ_EMPTY, PTL_FAIL, PTL_IN_USE, PTL_INTERRUPTED, PTL_LIST_TOO_LONG,
    PTL_NO_INIT, PTL_NO_SPACE, PTL_PID_IN_USE, PTL_PT_FULL,
    PTL_PT_EQ_NEEDED, PTL_PT_IN_USE, PTL_ABORTED, PTL_IGNORED, ... };

typedef union {
    struct { uint32_t nid; uint32_t pid; } phys;
    uint32_t rank;
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
    uint64_t max_msg_size;
    uint64_t max_atomic_size;
    uint64_t max_fetch_atomic_size;
    uint64_t max_waw_ordered_size;
    uint64_t max_war_ordered_size;
    uint64_t max_volatile_size;
    unsigned int features;
} ptl_ni_limits_t;

typedef struct { void *iov_base; uint64_t iov_len; } ptl_iovec_t;

typedef struct {
    void *start;
    uint64_t length;
    unsigned int options;
    uint32_t eq_handle;
    uint32_t ct_handle;
} ptl_md_t;

typedef enum { PTL_PRIORITY_LIST, PTL_OVERFLOW_LIST, ... } ptl_list_t;
typedef enum { PTL_NO_ACK_REQ, PTL_ACK_REQ, PTL_CT_ACK_REQ, PTL_OC_ACK_REQ,
    ... } ptl_ack_req_t;

typedef enum { PTL_EVENT_PUT, PTL_EVENT_SEND, PTL_EVENT_ACK,
    PTL_EVENT_PT_DISABLED, PTL_EVENT_LINK, PTL_EVENT_AUTO_UNLINK,
    PTL_EVENT_AUTO_FREE, ... } ptl_event_kind_t;
typedef enum { PTL_NI_OK, PTL_NI_UNDELIVERABLE, PTL_NI_DROPPED,
    PTL_NI_PT_DISABLED, PTL_NI_PERM_VIOLATION, PTL_NI_OP_VIOLATION,
    PTL_NI_NO_MATCH, PTL_NI_SEGV, ... } ptl_ni_fail_t;

typedef enum { PTL_SEARCH_ONLY, PTL_SEARCH_DELETE, ... } ptl_search_op_t;
typedef enum { PTL_SR_DROP_COUNT, ... } ptl_sr_index_t;
typedef enum { PTL_MIN, ... } ptl_op_t;
typedef enum { PTL_INT8_T, ... } ptl_datatype_t;

typedef struct {
    void *start;
    uint64_t length;
    uint32_t ct_handle;
    uint32_t uid;
    unsigned int options;
} ptl_le_t;

typedef struct {
    void *start;
    uint64_t length;
    uint32_t ct_handle;
    uint32_t uid;
    unsigned int options;
    ptl_process_t match_id;
    uint64_t match_bits;
    uint64_t ignore_bits;
    uint64_t min_free;
} ptl_me_t;

typedef struct { uint64_t success; uint64_t failure; } ptl_ct_event_t;

typedef struct {
    void *start;
    void *user_ptr;
    uint64_t hdr_data;
    uint64_t match_bits;
    uint64_t rlength;
    uint64_t mlength;
    uint64_t remote_offset;
    uint32_t uid;
    ptl_process_t initiator;
    ptl_event_kind_t type;
    ptl_list_t ptl_list;
    uint32_t pt_index;
    ptl_ni_fail_t ni_fail_type;
    ptl_op_t atomic_operation;
    ptl_datatype_t atomic_type;
} ptl_event_t;

#define PTL_NID_ANY ...
#define PTL_PID_ANY ...
#define PTL_UID_ANY ...
#define PTLX_CREDENTIAL_MAX_BYTES ...
#define PTL_PT_ANY ...
#define PTL_EQ_NONE ...
#define PTL_CT_NONE ...
#define PTL_PT_FLOWCTRL ...
#define PTL_MD_EVENT_SUCCESS_DISABLE ...
#define PTL_MD_EVENT_CT_SEND ...
#define PTL_MD_EVENT_CT_ACK ...
#define PTL_MD_EVENT_CT_BYTES ...
#define PTL_MD_EVENT_SEND_DISABLE ...
#define PTL_ME_OP_PUT ...
#define PTL_ME_USE_ONCE ...
#define PTL_ME_ACK_DISABLE ...
#define PTL_ME_EVENT_LINK_DISABLE ...
#define PTL_ME_EVENT_CT_COMM ...
#define PTL_ME_EVENT_CT_BYTES ...
#define PTL_ME_UNEXPECTED_HDR_DISABLE ...
#define PTL_ME_MANAGE_LOCAL ...
#define PTL_ME_NO_TRUNCATE ...
#define PTL_ME_MAY_ALIGN ...
#define PTLX_MESSAGE_MAX_BYTES ...
#define PTLX_NO_LISTEN ...

enum ptlx_key_kind { PTLX_KEY_NONE, PTLX_KEY_PARTITION, PTLX_KEY_USER,
    PTLX_KEY_JOB, PTLX_KEY_LOCAL, PTLX_KEY_MUNGE, ... };

struct ptlx_key {
    uint32_t kind;
    uint32_t uid;
    uint64_t job_id;
    uint64_t expires;
    uint8_t secret[32];
};

struct ptlx_config {
    uint32_t listen_nid;
    uint32_t listen_pid;
    int listen_fd;
    uint32_t advertise_nid;
    uint32_t uid;
    const char *unix_path;
    const uint8_t *partition_key;
    uint32_t connect_timeout_ms;
    uint32_t handshake_timeout_ms;
    uint32_t liveness_ms;
    uint32_t idle_ms;
    uint32_t max_unproven;
    uint32_t max_unproven_each;
    uint32_t max_connections_each;
    uint64_t max_unread_each;
    uint32_t sending_bytes;
    uint32_t ack_delay_ms;
    uint8_t version_min, version_max;
    uint8_t is_local;
    uint8_t no_memory;
    uint8_t needs_key;
    uint8_t integrity;
    uint8_t wants_answers;
};

enum ptlx_event_kind { PTLX_EVENT_PEER_LOST, PTLX_EVENT_OBJECT_ARRIVED,
    PTLX_EVENT_OBJECT_SENT, PTLX_EVENT_OBJECT_FAILED,
    PTLX_EVENT_PEER_LEFT, PTLX_EVENT_CREDENTIAL, PTLX_EVENT_PEER_IDLE, ... };

enum ptlx_loss { PTLX_LOSS_UNREACHABLE, PTLX_LOSS_WRONG_KEY,
    PTLX_LOSS_WRONG_VERSION, PTLX_LOSS_WRONG_PEER, PTLX_LOSS_CLOSED,
    PTLX_LOSS_DIED, PTLX_LOSS_RESTARTED, PTLX_LOSS_MISBEHAVED,
    PTLX_LOSS_REFUSED, PTLX_LOSS_CROWDED,
    PTLX_LOSS_CREDENTIAL, PTLX_LOSS_UNREAD, ... };

enum ptlx_object_fail { PTLX_OBJECT_PARENT_LOST, PTLX_OBJECT_CHILD_LOST,
    PTLX_OBJECT_CHILD_REFUSED, PTLX_OBJECT_FILE_SHRANK,
    PTLX_OBJECT_FILE_ERROR, PTLX_OBJECT_OUT_OF_ORDER, ... };

struct ptlx_event {
    uint32_t type;
    uint32_t ni_fail;
    uint32_t nid, pid;
    uint64_t serial;
    void *start;
    void *user_ptr;
    uint64_t mlength, rlength, remote_offset;
    uint64_t match_bits, hdr_data;
    uint64_t job_id;
    uint32_t kind, uid;
    uint32_t pt_index, list;
    uint32_t reason;
    int32_t detail;
    int64_t first_ns, last_ns;
    uint8_t digest[32];
    uint8_t operation, datatype;
};

struct ptlx_object {
    uint64_t match_bits;
    uint64_t job_id;
    uint64_t size;
    uint64_t chunk_bytes;
    const ptl_process_t *children;
    uint32_t n_children;
    int fd;
    int is_source;
};

struct ptlx_counters {
    uint64_t bytes_out, bytes_in, frames_out, frames_in;
    uint64_t dropped, resent, peers, connections, unproven;
};

int PtlInit (void);
void PtlFini (void);
void PtlAbort (void);
int PtlNIInit (uint32_t iface, unsigned int options, uint32_t pid,
               const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual,
               uint32_t *ni);
int PtlNIFini (uint32_t ni);
int PtlNIStatus (uint32_t ni, ptl_sr_index_t index, int *value);
int PtlNIHandle (uint32_t handle, uint32_t *ni);
int PtlSetMap (uint32_t ni, uint64_t map_size, const ptl_process_t *mapping);
int PtlGetMap (uint32_t ni, uint64_t map_size, ptl_process_t *mapping,
               uint64_t *actual_map_size);
int PtlGetUid (uint32_t ni, uint32_t *uid);
int PtlGetId (uint32_t ni, ptl_process_t *id);
int PtlGetPhysId (uint32_t ni, ptl_process_t *id);
int PtlHandleIsEqual (uint32_t a, uint32_t b);
int PtlPTAlloc (uint32_t ni, unsigned int options, uint32_t eq,
                uint32_t wanted, uint32_t *index);
int PtlPTFree (uint32_t ni, uint32_t index);
int PtlPTDisable (uint32_t ni, uint32_t index);
int PtlPTEnable (uint32_t ni, uint32_t index);
int PtlMDBind (uint32_t ni, const ptl_md_t *md, uint32_t *handle);
int PtlMDRelease (uint32_t md);
int PtlLEAppend (uint32_t ni, uint32_t index, const ptl_le_t *le,
                 ptl_list_t list, void *user_ptr, uint32_t *handle);
int PtlLEUnlink (uint32_t le);
int PtlLESearch (uint32_t ni, uint32_t index, const ptl_le_t *le,
                 ptl_search_op_t operation, void *user_ptr);
int PtlMEAppend (uint32_t ni, uint32_t index, const ptl_me_t *me,
                 ptl_list_t list, void *user_ptr, uint32_t *handle);
int PtlMEUnlink (uint32_t me);
int PtlMESearch (uint32_t ni, uint32_t index, const ptl_me_t *me,
                 ptl_search_op_t operation, void *user_ptr);
int PtlEQAlloc (uint32_t ni, uint64_t count, uint32_t *eq);
int PtlEQFree (uint32_t eq);
int PtlEQGet (uint32_t eq, ptl_event_t *event);
int PtlEQWait (uint32_t eq, ptl_event_t *event);
int PtlEQPoll (const uint32_t *eqs, unsigned int size, uint32_t timeout,
               ptl_event_t *event, unsigned int *which);
int PtlCTAlloc (uint32_t ni, uint32_t *ct);
int PtlCTFree (uint32_t ct);
int PtlCTGet (uint32_t ct, ptl_ct_event_t *event);
int PtlCTWait (uint32_t ct, uint64_t test, ptl_ct_event_t *event);
int PtlCTPoll (const uint32_t *cts, const uint64_t *tests, unsigned int size,
               uint32_t timeout, ptl_ct_event_t *event, unsigned int *which);
int PtlCTSet (uint32_t ct, ptl_ct_event_t value);
int PtlCTInc (uint32_t ct, ptl_ct_event_t increment);
int PtlCTCancelTriggered (uint32_t ct);
int PtlPut (uint32_t md, uint64_t local_offset, uint64_t length,
            ptl_ack_req_t ack, ptl_process_t target, uint32_t index,
            uint64_t match_bits, uint64_t remote_offset, void *user_ptr,
            uint64_t hdr_data);
int PtlGet (uint32_t md, uint64_t local_offset, uint64_t length,
            ptl_process_t target, uint32_t index, uint64_t match_bits,
            uint64_t remote_offset, void *user_ptr);
int PtlAtomic (uint32_t md, uint64_t local_offset, uint64_t length,
               ptl_ack_req_t ack, ptl_process_t target, uint32_t index,
               uint64_t match_bits, uint64_t remote_offset, void *user_ptr,
               uint64_t hdr_data, ptl_op_t operation, ptl_datatype_t datatype);
int PtlFetchAtomic (uint32_t get_md, uint64_t local_get_offset,
                    uint32_t put_md, uint64_t local_put_offset,
                    uint64_t length, ptl_process_t target, uint32_t index,
                    uint64_t match_bits, uint64_t remote_offset,
                    void *user_ptr, uint64_t hdr_data, ptl_op_t operation,
                    ptl_datatype_t datatype);
int PtlSwap (uint32_t get_md, uint64_t local_get_offset, uint32_t put_md,
             uint64_t local_put_offset, uint64_t length, ptl_process_t target,
             uint32_t index, uint64_t match_bits, uint64_t remote_offset,
             void *user_ptr, uint64_t hdr_data, const void *operand,
             ptl_op_t operation, ptl_datatype_t datatype);
int PtlAtomicSync (void);
int PtlTriggeredPut (uint32_t md, uint64_t local_offset, uint64_t length,
                     ptl_ack_req_t ack, ptl_process_t target, uint32_t index,
                     uint64_t match_bits, uint64_t remote_offset,
                     void *user_ptr, uint64_t hdr_data, uint32_t trigger,
                     uint64_t threshold);
int PtlTriggeredGet (uint32_t md, uint64_t local_offset, uint64_t length,
                     ptl_process_t target, uint32_t index, uint64_t match_bits,
                     uint64_t remote_offset, void *user_ptr, uint32_t trigger,
                     uint64_t threshold);
int PtlTriggeredAtomic (uint32_t md, uint64_t local_offset, uint64_t length,
                        ptl_ack_req_t ack, ptl_process_t target,
                        uint32_t index, uint64_t match_bits,
                        uint64_t remote_offset, void *user_ptr,
                        uint64_t hdr_data, ptl_op_t operation,
                        ptl_datatype_t datatype, uint32_t trigger,
                        uint64_t threshold);
int PtlTriggeredFetchAtomic (uint32_t get_md, uint64_t local_get_offset,
                             uint32_t put_md, uint64_t local_put_offset,
                             uint64_t length, ptl_process_t target,
                             uint32_t index, uint64_t match_bits,
                             uint64_t remote_offset, void *user_ptr,
                             uint64_t hdr_data, ptl_op_t operation,
                             ptl_datatype_t datatype, uint32_t trigger,
                             uint64_t threshold);
int PtlTriggeredSwap (uint32_t get_md, uint64_t local_get_offset,
                      uint32_t put_md, uint64_t local_put_offset,
                      uint64_t length, ptl_process_t target, uint32_t index,
                      uint64_t match_bits, uint64_t remote_offset,
                      void *user_ptr, uint64_t hdr_data, const void *operand,
                      ptl_op_t operation, ptl_datatype_t datatype,
                      uint32_t trigger, uint64_t threshold);
int PtlTriggeredCTSet (uint32_t ct, ptl_ct_event_t value, uint32_t trigger,
                       uint64_t threshold);
int PtlTriggeredCTInc (uint32_t ct, ptl_ct_event_t increment, uint32_t trigger,
                       uint64_t threshold);
int PtlTriggeredLEAppend (uint32_t ni, uint32_t index, const ptl_le_t *le,
                          ptl_list_t list, void *user_ptr, uint32_t *handle,
                          uint32_t trigger, uint64_t threshold);
int PtlTriggeredLEUnlink (uint32_t le, uint32_t trigger, uint64_t threshold);
int PtlTriggeredMEAppend (uint32_t ni, uint32_t index, const ptl_me_t *me,
                          ptl_list_t list, void *user_ptr, uint32_t *handle,
                          uint32_t trigger, uint64_t threshold);
int PtlTriggeredMEUnlink (uint32_t me, uint32_t trigger, uint64_t threshold);
int PtlStartBundle (uint32_t ni);
int PtlEndBundle (uint32_t ni);

int PtlxNIInit (const struct ptlx_config *config, uint32_t *ni);
int PtlxNIInitKind (const struct ptlx_config *config, unsigned int options,
                    const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual,
                    uint32_t *ni);
int PtlxNIFini (uint32_t ni, uint32_t flush_ms);
int PtlxFd (uint32_t ni, int *fd);
int PtlxNotify (uint32_t ni, uint32_t eq);
int PtlxUseKey (uint32_t ni, ptl_process_t target, const struct ptlx_key *key);
int PtlxPartitionKeys (uint32_t ni, const uint8_t *keys, uint32_t n);
int PtlxUseCredential (uint32_t ni, const void *credential, size_t length);
int PtlxTakeCredentials (uint32_t ni);
int PtlxCredential (uint32_t ni, uint64_t ticket, void *copy, size_t *length);
int PtlxAnswerCredential (uint32_t ni, uint64_t ticket, uint32_t uid,
                          const uint8_t *secret, uint32_t code);
int PtlxSetAddress (uint32_t ni, uint32_t nid, const char *address);
int PtlxEvents (uint32_t ni, uint32_t eq, struct ptlx_event *events, int room,
                int *count);
int PtlxSend (uint32_t ni, uint32_t nid, uint32_t pid, const void *data,
              size_t length);
int PtlxDisconnect (uint32_t ni, uint32_t nid, uint32_t pid);
int PtlxPart (uint32_t ni, uint32_t nid, uint32_t pid);
int PtlxForward (uint32_t ni, const struct ptlx_object *object);
int PtlxCancel (uint32_t ni, uint64_t match_bits);
int PtlxCounters (uint32_t ni, struct ptlx_counters *counters);
const char *PtlxErrorName (int rc);
const char *PtlxErrorText (int rc);
void PtlxMac (const uint8_t *key, const char *person, const void *data,
              size_t length, uint8_t *out);
void PtlxHash (const void *data, size_t length, uint8_t *out);

int yod_open_as (uint32_t uid, uint32_t gid, const uint32_t *groups,
                 size_t n_groups, const char *path, int path_only);
int yod_punch (int fd, uint64_t offset, uint64_t length);

int devices_deny (const char *group, const char *text);
int devices_programs (const char *group);
