/* ptl_end.h - endpoint: one id, its sockets, its peers and their operations.
 *
 * An endpoint has one epoll set with its sockets, an eventfd (an event is
 * unread, or a sleeper is to wake) and a timerfd (a deadline is due); the set
 * itself is the descriptor that the loop of a daemon watches. ptl_end_progress
 * does what is due, at most a budget of it. Nothing here has a thread; callers
 * hold the lock. Interfaces of up to four kinds (ptl_ni.h) sit on it.
 *
 * Every public call that may begin something ends with ptl_end_settle: work
 * queue, owed output, ended connections, in turn until nothing is left, so
 * that no operation runs inside another.
 */
#ifndef PTL_END_H
#define PTL_END_H

#include <pthread.h>
#include <stdatomic.h>

#include "portals4_ext.h"
#include "ptl_above.h"
#include "ptl_arrival.h"
#include "ptl_due.h"
#include "ptl_list.h"
#include "ptl_op.h"
#include "ptl_share.h"
#include "ptl_wire.h"

#define PTL_BUDGET_FRAMES 64
#define PTL_BUDGET_BYTES (256 * 1024)
#define PTL_STAGING_BYTES (64 * 1024)
#define PTL_FLAT_BYTES (64 * 1024)
#define PTL_FLUSH_MS 2000 /* of an ordinary end */

struct ptl_conn;
struct ptl_ni;
struct ptl_peer;

/* What a member of the epoll set is. */
enum ptl_source_kind {
    PTL_SOURCE_TCP,
    PTL_SOURCE_UNIX,
    PTL_SOURCE_EVENT,
    PTL_SOURCE_TIMER,
    PTL_SOURCE_ABORT,
    PTL_SOURCE_CONN,
    PTL_SOURCE_NEAR
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

struct ptl_end {
    struct ptl_node node;      /* among the endpoints of the process */
    const struct ptl_above *above; /* who uses it */
    struct ptlx_config config; /* no zeros where a default exists */
    char *unix_path;           /* to be removed at the end, or NULL */
    unsigned n_partition_keys; /* 0: none is held */
    uint8_t partition_keys[PTLX_KEYS_MAX][PTLX_KEY_BYTES]; /* own, then old */
    struct ptlx_key default_key;
    bool takes_credentials; /* whoever drives us has them judged */
    uint16_t credential_length;
    uint8_t credential[PTLX_CREDENTIAL_MAX_BYTES]; /* ours, to dial with */
    struct ptl_who self;
    uint64_t incarnation;
    uint32_t seed; /* of pids for aliases */

    int epoll_fd;
    struct ptl_source tcp, local, near, event, timer;
    int64_t now_ms;   /* monotonic, as of the last call */
    int64_t wake_ms;  /* what the timer is set to */
    int64_t armed_ms; /* and since when */
    struct ptl_dues conn_dues, peer_dues; /* who is to be looked at, when */
    int64_t stood_ms; /* in which something was due, and nobody drove */
    int64_t accept_ms; /* listeners rest until then; 0: they do not */
    unsigned n_short;  /* descriptors missing (ptl_room.h) */
    size_t room;       /* connections there is room for; 0: enough */
    int64_t short_ms;  /* when a descriptor was missing last */
    bool has_freed;    /* a descriptor is free again */
    bool is_signalled; /* the eventfd is readable */
    bool is_starved;   /* a queue had no room for what arrived */
    bool is_watched;   /* a loop watches the epoll set: signal unread events */

    pthread_cond_t woken;  /* for waiters while another one drives */
    bool is_driven;        /* a waiter sleeps in the epoll set */
    bool is_ending;        /* waiters have to leave */
    unsigned n_waiting;    /* threads in ptl_wait */
    unsigned n_unspun;     /* waits that slept at once */
    int64_t spin_ns;       /* how long the next one looks */
    unsigned n_asleep;     /* threads in the epoll set */
    uint64_t changes, changes_seen; /* events and counts; by who sleeps */
    unsigned n_calls;      /* public calls */
    _Atomic int64_t looked_ns; /* at every socket; read without the lock */
    struct ptl_conn *hot;  /* the last to bring something, or NULL */
    unsigned n_hot;        /* looks at it alone, in a row */
    unsigned hot_looks;    /* how many of them there may be */

    uint64_t unread; /* events in all queues */
    uint64_t serial;
    int64_t budget_frames, budget_bytes;

    struct ptl_peer **peers; /* hash table */
    size_t peer_slots, n_peers;
    struct ptl_node origins; /* of unproven connections (ptl_unproven.h) */
    struct ptl_node shares[PTL_SHARE_LISTS]; /* by user (ptl_share.h) */
    size_t n_unproven;
    struct ptl_node conns, dirty, grave;
    struct ptl_node nears; /* connections with shared memory */
    bool is_lying;         /* their peers are to wake us (ptl_wake.h) */
    struct ptl_node work;
    struct ptl_node later; /* work that may take long: after all output */
    struct ptl_node self_held;
    struct ptl_node targets, addresses;
    struct ptl_node losses; /* whose event is unread */
    struct ptl_node objects;
    struct ptl_node turns; /* what the objects of each job share */
    struct ptl_ni *nis[PTL_KINDS]; /* NULL: not opened */
    struct ptl_op_table ops;
    struct ptl_eq *notify; /* events about peers and objects, or NULL */
    struct ptlx_counters counters;
    uint8_t staging[PTL_STAGING_BYTES];
    uint8_t flat[PTL_FLAT_BYTES]; /* frames on their way out */
    uint8_t *spare_small; /* of ptl_out.c, or NULL */
    unsigned n_bundles;   /* open: nothing is written before they end */
};

/* Hold n keys of the partition instead of those before: the first is dialled
 * with, all are accepted. Connections go on. */
void ptl_end_hold_keys (struct ptl_end *end, const uint8_t *keys, unsigned n);

/* Make an endpoint; results as PtlxNIInit. */
int ptl_end_alloc (const struct ptlx_config *config,
                   const struct ptl_above *above, struct ptl_end **endp);

/* Flush for at most flush_ms, tell the peers, drain, free everything; those
 * above it end by their `ending` and `ended`. */
void ptl_end_free (struct ptl_end *end, uint32_t flush_ms);

/* An interface is about to be freed, and others stay. Its triggered operations
 * have been cancelled. What it began is sent (for at most PTL_FLUSH_MS; then a
 * peer that has not taken it is lost), and nothing uses its memory
 * afterwards. */
void ptl_end_detach (struct ptl_end *end, struct ptl_ni *ni);

/* Drop the peers whose operations on this table entry are still under way: they
 * have had enough time. */
void ptl_end_cut (struct ptl_end *end, const struct ptl_ni *ni,
                  unsigned index);

/* Add a descriptor to the epoll set. PTL_OK, PTL_FAIL. */
int ptl_end_watch (struct ptl_end *end, struct ptl_source *source,
                  enum ptl_source_kind kind);

/* Set end->now_ms. */
void ptl_end_look_at_clock (struct ptl_end *end);

/* The same clock without the time in which this process did not run (stopped,
 * swapped out, computing): to measure how long peers took. */
static inline int64_t ptl_end_own_ms (const struct ptl_end *end)
{
    return end->now_ms - end->stood_ms;
}

/* A time that is not over: what a tick has done comes again in a later one. */
static inline int64_t ptl_end_later (const struct ptl_end *end, int64_t at_ms)
{
    return at_ms > end->now_ms ? at_ms : end->now_ms + 1;
}

/* Free the connections that have ended. */
void ptl_end_bury (struct ptl_end *end);

/* Do what is due now, within the budget; wait for it at most timeout_ms. */
void ptl_end_progress (struct ptl_end *end, int timeout_ms);

/* Run work and write what is owed until nothing is left to do at once. */
void ptl_end_settle (struct ptl_end *end);

/* Make the descriptor readable if an event is unread and a loop watches it, or
 * if something has changed and a thread sleeps in the epoll set. */
void ptl_end_signal (struct ptl_end *end);

/* Clear that, before sleeping. */
void ptl_end_unsignal (struct ptl_end *end);

/* Look for arrivals in shared memory, then at the connection that brought the
 * last ones. At most one system call, mostly none while memory is shared. */
void ptl_end_poll (struct ptl_end *end);

/* May this thread sleep in epoll? False: a ring has something. */
bool ptl_end_may_sleep (struct ptl_end *end);

/* Discard all work: it will not run. */
void ptl_end_discard_work (struct ptl_end *end);

/* Append to the work queue. */
void ptl_end_work (struct ptl_end *end, struct ptl_work *work);

/* Wake up at `at_ms` at the latest. */
void ptl_end_wake_at (struct ptl_end *end, int64_t at_ms);

/* A put to oneself was refused: try again soon, in order. */
void ptl_end_hold (struct ptl_end *end, struct ptl_op *op);

/* Tell the owner: an event about a peer or an object. */
void ptl_end_notify (struct ptl_end *end, const struct ptlx_event *event);

/* Is the event of this peer's loss unread? Until it is read, what is sent to
 * the peer is lost as well: it was meant for the process that is gone, and a
 * successor must not get the rest of a conversation that it did not begin. */
bool ptl_end_is_mourned (const struct ptl_end *end, uint32_t nid, uint32_t pid);

/* An event has been read: ptl_end_is_mourned is over for its peer. */
void ptl_end_was_read (struct ptl_end *end, const struct ptlx_event *event);

/* Monotonic clock. */
int64_t ptl_clock_ns (void);

#endif
