/* near_ends.h - ends in two processes of this host that may share memory.
 *
 * The other process is forked before the library is used; it tells its id
 * through a pipe, and lives no longer than this one. */
#ifndef NEAR_ENDS_H
#define NEAR_ENDS_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "ptl_conn.h"
#include "ptl_handle.h"
#include "ptl_near.h"
#include "ptl_ni.h"

static inline void near_open (struct end *end, size_t queue)
{
    struct ptlx_config config = {
        .listen_nid = LOOPBACK,
        .partition_key = test_key,
        .is_local = 1,
    };

    end_open_with (end, &config, queue);
}

/* The first connection of an end; NULL: it has none. */
static inline struct ptl_conn *conn_of (const struct end *end)
{
    struct ptl_ni *ni;

    CHECK (ptl_handle_find (end->ni, PTL_HANDLE_NI, &ni) == PTL_OK);
    if (ptl_list_empty (&ni->end->conns))
        return NULL;
    return ptl_entry (ni->end->conns.next, struct ptl_conn, all);
}

/* Do both directions go through memory? */
static inline bool is_shared (const struct end *end)
{
    const struct ptl_conn *conn = conn_of (end);

    return conn && ptl_near_is_in (conn) && ptl_near_is_out (conn);
}

struct other {
    pid_t pid;
    int to, from; /* pipes */
};

/* Start `run` in another process. */
static inline struct other other_start (void (*run) (struct other *parent))
{
    int down[2], up[2];
    struct other other;
    pid_t self = getpid ();

    CHECK (pipe (down) == 0 && pipe (up) == 0);
    CHECK ((other.pid = fork ()) >= 0);
    if (other.pid == 0) {
        struct other parent = { self, up[1], down[0] };

        prctl (PR_SET_PDEATHSIG, SIGKILL);
        close (down[1]);
        close (up[0]);
        if (getppid () == self)
            run (&parent);
        exit (0);
    }
    close (down[0]);
    close (up[1]);
    other.to = down[1];
    other.from = up[0];
    return other;
}

static inline void other_tell (const struct other *other, const void *data,
                               size_t length)
{
    CHECK (write (other->to, data, length) == (ssize_t)length);
}

static inline void other_hear (const struct other *other, void *data,
                               size_t length)
{
    CHECK (read (other->from, data, length) == (ssize_t)length);
}

/* It ends by itself, and well. */
static inline void other_end (const struct other *other)
{
    int status;

    CHECK (waitpid (other->pid, &status, 0) == other->pid);
    CHECK (status == 0);
    close (other->to);
    close (other->from);
}

static inline void other_kill (const struct other *other)
{
    CHECK (kill (other->pid, SIGKILL) == 0);
    CHECK (waitpid (other->pid, NULL, 0) == other->pid);
    close (other->to);
    close (other->from);
}

/* Put small messages until the connection shares memory: the ends take turns
 * because each put waits for its ack. */
static inline void warm_up (struct end *ends, int n, struct end *end,
                            ptl_process_t target)
{
    static char byte;
    ptl_handle_md_t md = bind_memory (end, &byte, 1,
                                      PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);

    for (int i = 0; i < 100 && !is_shared (end); i++) {
        CHECK (PtlPut (md, 0, 1, PTL_ACK_REQ, target, 0, 0, 0, NULL, 0)
               == PTL_OK);
        pump_until (ends, n, end, PTL_EVENT_ACK,
                    count_of (end, PTL_EVENT_ACK) + 1);
    }
    CHECK (is_shared (end));
    CHECK (PtlMDRelease (md) == PTL_OK);
}

#endif
