/* ptl_ni.h - network interface: what every other object hangs off.
 *
 * An interface has one epoll set with its sockets, an eventfd (an event is
 * unread) and a timerfd (a deadline is due); the set itself is the descriptor
 * that the loop of a daemon watches. ptl_ni_progress does what is due, at most
 * a budget of it. Nothing here has a thread; callers hold the lock.
 *
 * Every public call that may begin something ends with ptl_ni_settle: work
 * queue, owed output, ended connections, in turn until nothing is left, so
 * that no operation runs inside another.
 */
#ifndef PTL_NI_H
#define PTL_NI_H

#include "portals4_ext.h"
#include "ptl_list.h"
#include "ptl_op.h"
#include "ptl_pt.h"

#define PTL_BUDGET_FRAMES 64
#define PTL_BUDGET_BYTES (256 * 1024)
#define PTL_STAGING_BYTES (64 * 1024)
#define PTL_NEVER INT64_MAX

struct ptl_conn;
struct ptl_peer;

/* What a member of the epoll set is. */
enum ptl_source_kind {
    PTL_SOURCE_TCP,
    PTL_SOURCE_UNIX,
    PTL_SOURCE_EVENT,
    PTL_SOURCE_TIMER,
    PTL_SOURCE_CONN
};

struct ptl_source {
    enum ptl_source_kind kind;
    int fd; /* -1: none */
};

/* A key or an address for one target. */
struct ptl_target {
    struct ptl_node node;
    uint32_t nid, pid;
    struct ptlx_key key;
};

/* A peer whose loss has not been read. */
struct ptl_loss {
    struct ptl_node node;
    uint32_t nid, pid;
};

struct ptl_address {
    struct ptl_node node;
    uint32_t nid;
    char text[]; /* "/path" or "[ipv6]:port" */
};

struct ptl_ni {
    struct ptlx_config config; /* no zeros where a default exists */
    char *unix_path;           /* to be removed at the end, or NULL */
    bool holds_partition_key;
    uint8_t partition_key[PTLX_KEY_BYTES];
    struct ptlx_key default_key;
    struct ptl_who self;
    uint64_t incarnation;
    uint32_t handle;
    uint32_t seed; /* of pids for aliases */

    int epoll_fd;
    struct ptl_source tcp, local, event, timer;
    int64_t now_ms;   /* monotonic, as of the last call */
    int64_t wake_ms;  /* what the timer is set to */
    int64_t accept_ms; /* listeners rest until then; 0: they do not */
    bool is_signalled; /* the eventfd is readable */
    bool is_settling;
    uint64_t unread; /* events in all queues */
    uint64_t serial;
    int64_t budget_frames, budget_bytes;

    struct ptl_peer **peers; /* hash table */
    size_t peer_slots, n_peers;
    size_t n_unproven;
    struct ptl_node conns, dirty, grave;
    struct ptl_node work;
    struct ptl_node later; /* work that may take long: after all output */
    struct ptl_node self_held;
    struct ptl_node targets, addresses;
    struct ptl_node losses; /* whose event is unread */
    struct ptl_node eqs, cts, mds, mes, objects;
    struct ptl_op_table ops;
    struct ptl_eq *notify; /* events about peers and objects, or NULL */
    struct ptl_pt pt[PTL_PT_COUNT];
    struct ptlx_counters counters;
    uint8_t staging[PTL_STAGING_BYTES];
};

/* Make an interface; results as PtlxNIInit. */
int ptl_ni_alloc (const struct ptlx_config *config, struct ptl_ni **nip);

/* Flush for at most flush_ms, tell the peers, drain, free everything. */
void ptl_ni_free (struct ptl_ni *ni, uint32_t flush_ms);

/* Add a descriptor to the epoll set. PTL_OK, PTL_FAIL. */
int ptl_ni_watch (struct ptl_ni *ni, struct ptl_source *source,
                  enum ptl_source_kind kind);

/* Set ni->now_ms. */
void ptl_ni_look_at_clock (struct ptl_ni *ni);

/* Free the connections that have ended. */
void ptl_ni_bury (struct ptl_ni *ni);

/* Do what is due now, within the budget; wait for it at most timeout_ms. */
void ptl_ni_progress (struct ptl_ni *ni, int timeout_ms);

/* Run work and write what is owed until nothing is left to do at once. */
void ptl_ni_settle (struct ptl_ni *ni);

/* Make the descriptor readable if and only if an event is unread. */
void ptl_ni_signal (struct ptl_ni *ni);

/* Append to the work queue. */
void ptl_ni_work (struct ptl_ni *ni, struct ptl_work *work);

/* Be woken at `at_ms` at the latest. */
void ptl_ni_wake_at (struct ptl_ni *ni, int64_t at_ms);

/* A put to oneself was refused; try again soon, in order. */
void ptl_ni_hold (struct ptl_ni *ni, struct ptl_op *op);

/* Tell the owner: an event about a peer or an object. */
void ptl_ni_notify (struct ptl_ni *ni, const struct ptlx_event *event);

/* Is the loss of this peer still to be read? What is sent to it until then is
 * lost with it: it was sent to the one that is gone, and a successor must not
 * get the end of a conversation whose beginning it never saw. */
bool ptl_ni_is_mourned (const struct ptl_ni *ni, uint32_t nid, uint32_t pid);

/* An event has been read; ends the mourning of a lost peer. */
void ptl_ni_was_read (struct ptl_ni *ni, const struct ptlx_event *event);

/* A handle of the public layer is no longer valid (0: there is none). */
void ptl_ni_forget_handle (uint32_t handle);

/* Monotonic clock. */
int64_t ptl_clock_ns (void);

#endif
