/* portals4_ext.h - what our daemons need beyond Portals 4.3.
 *
 * Interfaces made here are private to their maker: any number of them can
 * live in one process. They have no thread: PtlxEvents drives progress.
 */
#ifndef PORTALS4_EXT_H
#define PORTALS4_EXT_H

#include "portals4.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PTLX_KEY_BYTES 32
#define PTLX_KEYS_MAX 4 /* of a partition, while its key is changed */
#define PTLX_CREDENTIAL_MAX_BYTES 1024
#define PTLX_DIGEST_BYTES 32
#define PTLX_MESSAGE_MAX_BYTES (256u * 1024) /* one fragment */
#define PTLX_NO_LISTEN 0xffffffffu

/* What a key proves; the values are on the wire. */
enum ptlx_key_kind {
    PTLX_KEY_NONE = 0,
    PTLX_KEY_PARTITION = 1,
    PTLX_KEY_USER = 2,
    PTLX_KEY_JOB = 3,
    PTLX_KEY_LOCAL = 4, /* no secret: peer credentials of a Unix socket */
    PTLX_KEY_MUNGE = 5  /* the secret is in the credential (PtlxUseCredential) */
};

struct ptlx_key {
    uint32_t kind; /* enum ptlx_key_kind */
    uint32_t uid;
    uint64_t job_id;
    uint64_t expires; /* seconds since 1970; for JOB */
    uint8_t secret[PTLX_KEY_BYTES];
};

/* MACs protect all that is sent; nothing is secret. Both ends must do it. */
enum ptlx_integrity {
    PTLX_INTEGRITY_OFF = 0,
    PTLX_INTEGRITY_WANTED = 1,  /* with peers that want it, too */
    PTLX_INTEGRITY_REQUIRED = 2 /* nobody else is spoken to */
};

/* All that is fixed before an interface exists. Zero means the default. */
struct ptlx_config {
    uint32_t listen_nid;    /* IPv4 address; 0: all, then advertise_nid too */
    uint32_t listen_pid;    /* port, 0: any free one, PTLX_NO_LISTEN: none */
    int listen_fd;          /* listens already: used, not closed; 0: none */
    uint32_t advertise_nid; /* what peers dial when listen_nid is 0.0.0.0 */
    uint32_t uid;           /* told to peers that hold the partition's key */
    const char *unix_path;  /* listen here as well; NULL: do not */
    const uint8_t *partition_key; /* PTLX_KEY_BYTES; NULL: none is held */
    uint32_t connect_timeout_ms;  /* 5000 */
    uint32_t handshake_timeout_ms; /* 5000 */
    uint32_t liveness_ms;         /* 20000; a dead host is noticed by then */
    uint32_t idle_ms; /* 0: never; PTLX_EVENT_PEER_IDLE after this */
    uint32_t max_unproven; /* 1024 connections that have to prove themselves */
    uint32_t max_unproven_each; /* 256 of a user of this host, or an address */
    uint32_t max_connections_each; /* 0: any number; proven ones, of a user */
    uint64_t max_unread_each; /* 0: any; bytes of messages that wait for them */
    uint32_t sending_bytes; /* 8 MiB; buffers of the objects that a job sends */
    uint32_t ack_delay_ms; /* 0; how long acks may wait for other frames */
    uint8_t version_min, version_max; /* of the protocol; for tests */
    uint8_t is_local; /* meet processes of this user and host at a Unix socket,
                         and share memory with them */
    uint8_t no_memory; /* but use the Unix socket only */
    uint8_t needs_key; /* and refuse who proves none there */
    uint8_t integrity; /* enum ptlx_integrity */
    uint8_t wants_answers; /* lose a peer that listens and answers nothing for
                              liveness_ms: it is stopped */
};

/* Kinds of event beyond those of the specification. */
enum ptlx_event_kind {
    PTLX_EVENT_PEER_LOST = 64, /* reason; detail: an errno, versions, whose */
    PTLX_EVENT_OBJECT_ARRIVED, /* match_bits, digest, first_ns, last_ns */
    PTLX_EVENT_OBJECT_SENT,    /* match_bits */
    PTLX_EVENT_OBJECT_FAILED,  /* match_bits, reason, detail */
    PTLX_EVENT_PEER_LEFT,      /* PtlxDisconnect has ended; serial, nid, pid */
    PTLX_EVENT_CREDENTIAL,     /* to be judged; serial: the ticket */
    PTLX_EVENT_PEER_IDLE       /* a daemon; nothing for idle_ms: nid, pid */
};

/* Why a peer is lost: values of native.port.port.Loss. */
enum ptlx_loss {
    PTLX_LOSS_UNREACHABLE = 1,
    PTLX_LOSS_WRONG_KEY = 2, /* detail: an errno; 6: the key has expired */
    PTLX_LOSS_WRONG_VERSION = 3,
    PTLX_LOSS_WRONG_PEER = 4,
    PTLX_LOSS_CLOSED = 5,
    PTLX_LOSS_DIED = 6,
    PTLX_LOSS_RESTARTED = 7,
    PTLX_LOSS_MISBEHAVED = 8,
    PTLX_LOSS_REFUSED = 9,
    PTLX_LOSS_CROWDED = 10, /* detail: 1: by connections of ours; 2: proven */
    PTLX_LOSS_CREDENTIAL = 11, /* detail: 11 to 15, the code of m4 */
    PTLX_LOSS_UNREAD = 12 /* its user reads too little of what is sent */
};

/* Why an object cannot be completed. */
enum ptlx_object_fail {
    PTLX_OBJECT_PARENT_LOST = 1,
    PTLX_OBJECT_CHILD_LOST = 2,    /* nid, pid name it */
    PTLX_OBJECT_CHILD_REFUSED = 3, /* detail: enum ptl_ni_fail_t */
    PTLX_OBJECT_FILE_SHRANK = 4,
    PTLX_OBJECT_FILE_ERROR = 5, /* detail: errno */
    PTLX_OBJECT_OUT_OF_ORDER = 6
};

/* An event with its initiator's proven principal. */
struct ptlx_event {
    uint32_t type;    /* ptl_event_kind_t or enum ptlx_event_kind */
    uint32_t ni_fail; /* ptl_ni_fail_t */
    uint32_t nid, pid;
    uint64_t serial; /* of the initiator's connection; never used again */
    void *start;
    void *user_ptr;
    uint64_t mlength, rlength, remote_offset;
    uint64_t match_bits, hdr_data;
    uint64_t job_id; /* principal: kind, uid, job id */
    uint32_t kind, uid;
    uint32_t pt_index, list;
    uint32_t reason;
    int32_t detail;
    int64_t first_ns, last_ns; /* monotonic clock */
    uint8_t digest[PTLX_DIGEST_BYTES];
    uint8_t operation, datatype; /* of an atomic operation */
};

/* Make an interface of kind (matching, physical).
 *   PTL_OK, PTL_NO_INIT, PTL_ARG_INVALID, PTL_NO_SPACE,
 *   PTL_PID_IN_USE  the port or the path is in use
 *   PTL_FAIL        the system refused; errno says why
 */
PTL_API int PtlxNIInit (const struct ptlx_config *config,
                        ptl_handle_ni_t *ni);

/* Likewise, of any kind and with limits, as PtlNIInit has them; still an
 * endpoint of its own. */
PTL_API int PtlxNIInitKind (const struct ptlx_config *config,
                            unsigned int options,
                            const ptl_ni_limits_t *desired,
                            ptl_ni_limits_t *actual, ptl_handle_ni_t *ni);

/* End an interface: flush for at most flush_ms, tell the peers, drain. */
PTL_API int PtlxNIFini (ptl_handle_ni_t ni, uint32_t flush_ms);

/* A descriptor that is readable while an event is unread, a progress budget
 * ran out or a deadline is due. It belongs to the interface. */
PTL_API int PtlxFd (ptl_handle_ni_t ni, int *fd);

/* Events about peers and objects go to this queue, which grows for them. */
PTL_API int PtlxNotify (ptl_handle_ni_t ni, ptl_handle_eq_t eq);

/* The key to dial with: one target, or all without their own (PTL_NID_ANY).
 * kind PTLX_KEY_NONE takes it away again. */
PTL_API int PtlxUseKey (ptl_handle_ni_t ni, ptl_process_t target,
                        const struct ptlx_key *key);

/* Hold n keys of the partition (PTLX_KEY_BYTES each, 1 to PTLX_KEYS_MAX) from
 * now on: the first is dialled with, all are accepted. Connections go on.
 *   PTL_ARG_INVALID  a wrong number, or the interface was made without one
 */
PTL_API int PtlxPartitionKeys (ptl_handle_ni_t ni, const uint8_t *keys,
                               uint32_t n);

/* The credential that goes with keys of kind PTLX_KEY_MUNGE, in which their
 * secret is. PTL_ARG_INVALID: it is too long.
 */
PTL_API int PtlxUseCredential (ptl_handle_ni_t ni, const void *credential,
                               size_t length);

/* Take credentials from now on: PTLX_EVENT_CREDENTIAL for each. */
PTL_API int PtlxTakeCredentials (ptl_handle_ni_t ni);

/* Copy the credential of a ticket; *length is the room, then its length.
 * PTL_ARG_INVALID: who sent it is gone, or there is no room.
 */
PTL_API int PtlxCredential (ptl_handle_ni_t ni, uint64_t ticket, void *copy,
                            size_t *length);

/* It is this user's, with this secret; or, without a secret, it is refused with
 * a code of m4 (12 to 15). A ticket whose sender is gone is ignored. */
PTL_API int PtlxAnswerCredential (ptl_handle_ni_t ni, uint64_t ticket,
                                  uint32_t uid, const uint8_t *secret,
                                  uint32_t code);

/* Entry `nid` (1 to 2^24-1) of the address table: "/path" of a Unix socket
 * or "[ipv6]:port". NULL removes it. */
PTL_API int PtlxSetAddress (ptl_handle_ni_t ni, ptl_nid_t nid,
                            const char *address);

/* Drive progress once and take up to `room` events; *count says how many.
 * PTLX_EVENT_PEER_LOST comes alone. What is put to a peer whose loss has not
 * been taken is lost with it; a put after that dials anew. */
PTL_API int PtlxEvents (ptl_handle_ni_t ni, ptl_handle_eq_t eq,
                        struct ptlx_event *events, int room, int *count);

/* Put a copy of a message of at most PTLX_MESSAGE_MAX_BYTES to portal table
 * entry 0 of the target, in order; a disabled entry is tried again. Nothing
 * is reported but the loss of the peer. */
PTL_API int PtlxSend (ptl_handle_ni_t ni, ptl_nid_t nid, ptl_pid_t pid,
                      const void *data, size_t length);

/* Flush to one peer, then end the connection: PTLX_EVENT_PEER_LEFT. */
PTL_API int PtlxDisconnect (ptl_handle_ni_t ni, ptl_nid_t nid, ptl_pid_t pid);

/* Nobody here needs the connection to this peer, until something is sent or
 * comes. It is closed when that is so at both ends: PTLX_EVENT_PEER_LEFT, and
 * no loss. What is sent later makes a new one. */
PTL_API int PtlxPart (ptl_handle_ni_t ni, ptl_nid_t nid, ptl_pid_t pid);

struct ptlx_object {
    uint64_t match_bits; /* job id << 16 | index */
    uint64_t job_id;     /* a principal that may deliver it */
    uint64_t size;       /* at least 1 */
    uint64_t chunk_bytes;
    const ptl_process_t *children;
    uint32_t n_children;
    int fd;        /* not used after the call */
    int is_source; /* read the file instead of expecting chunks */
};

/* Arm an object: chunks land in the file (portal table entry 1 of the
 * interface, which this call makes) and go on to the children.
 *   PTL_OK, PTL_ARG_INVALID, PTL_NO_SPACE, PTL_IN_USE (match bits), PTL_FAIL
 */
PTL_API int PtlxForward (ptl_handle_ni_t ni, const struct ptlx_object *object);

/* Forget an object; no event about it follows. Unknown ones are ignored. */
PTL_API int PtlxCancel (ptl_handle_ni_t ni, uint64_t match_bits);

/* Traffic so far, for tests and traces. */
struct ptlx_counters {
    uint64_t bytes_out, bytes_in, frames_out, frames_in;
    uint64_t dropped, resent, peers, connections, unproven;
};
PTL_API int PtlxCounters (ptl_handle_ni_t ni, struct ptlx_counters *counters);

/* Name and text of a result code; "unknown" for others. */
PTL_API const char *PtlxErrorName (int rc);
PTL_API const char *PtlxErrorText (int rc);

/* Pure helpers, as native/auth.py computes them. */
PTL_API void PtlxMac (const uint8_t key[PTLX_KEY_BYTES], const char *person,
                      const void *data, size_t length,
                      uint8_t out[PTLX_KEY_BYTES]);
PTL_API void PtlxHash (const void *data, size_t length,
                       uint8_t out[PTLX_DIGEST_BYTES]);

#ifdef __cplusplus
}
#endif
#endif
