/* harness.h - ends of the transport inside one test program.
 *
 * Each program states one promise, exits 0 when it holds and says what broke
 * otherwise. The ends talk over real sockets; nothing sleeps: pump waits for
 * descriptors, and gives up after LIMIT_MS.
 */
#ifndef HARNESS_H
#define HARNESS_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "portals4_ext.h"

#define LIMIT_MS 60000
#define LOOPBACK 0x7f000001u
#define MAX_LOG 8192

#define CHECK(condition)                                                \
    do {                                                                \
        if (!(condition)) {                                             \
            fprintf (stderr, "%s:%d: %s\n", __FILE__, __LINE__,         \
                     #condition);                                       \
            exit (1);                                                   \
        }                                                               \
    } while (0)

struct end {
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq;
    ptl_process_t id;
    struct ptlx_event *log; /* all events so far */
    int n;
};

static const uint8_t test_key[PTLX_KEY_BYTES] = { 1, 2, 3 };

static inline void end_open_with (struct end *end,
                                  const struct ptlx_config *config,
                                  size_t queue)
{
    memset (end, 0, sizeof (*end));
    CHECK (PtlInit () == PTL_OK);
    CHECK (PtlxNIInit (config, &end->ni) == PTL_OK);
    CHECK (PtlEQAlloc (end->ni, queue, &end->eq) == PTL_OK);
    CHECK (PtlxNotify (end->ni, end->eq) == PTL_OK);
    CHECK (PtlGetPhysId (end->ni, &end->id) == PTL_OK);
    end->log = calloc (MAX_LOG, sizeof (*end->log));
    CHECK (end->log);
}

/* Listening, with the partition's key. */
static inline void end_open (struct end *end, size_t queue)
{
    struct ptlx_config config = {
        .listen_nid = LOOPBACK,
        .partition_key = test_key,
    };

    end_open_with (end, &config, queue);
}

static inline void end_close (struct end *end)
{
    CHECK (PtlxNIFini (end->ni, 2000) == PTL_OK);
    PtlFini ();
    free (end->log);
}

static inline void end_take (struct end *end)
{
    int count = 0;

    CHECK (MAX_LOG - end->n >= 128);
    CHECK (PtlxEvents (end->ni, end->eq, end->log + end->n, 128, &count)
           == PTL_OK);
    end->n += count;
}

static inline int64_t now_ms (void)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Drive the ends until `done (context)`. */
static inline void pump (struct end *ends, int n, bool (*done) (void *),
                         void *context)
{
    int64_t until = now_ms () + LIMIT_MS;
    struct pollfd fds[8];

    CHECK (n <= 8);
    while (!done (context)) {
        for (int i = 0; i < n; i++) {
            CHECK (PtlxFd (ends[i].ni, &fds[i].fd) == PTL_OK);
            fds[i].events = POLLIN;
        }
        CHECK (now_ms () < until);
        poll (fds, (nfds_t)n, 100);
        for (int i = 0; i < n; i++)
            if (fds[i].revents)
                end_take (&ends[i]);
    }
}

/* How many events of a type an end has seen. */
static inline int count_of (const struct end *end, uint32_t type)
{
    int count = 0;

    for (int i = 0; i < end->n; i++)
        count += end->log[i].type == type;
    return count;
}

/* The nth (from 0) event of a type; NULL: not seen. */
static inline const struct ptlx_event *event_of (const struct end *end,
                                                 uint32_t type, int nth)
{
    for (int i = 0; i < end->n; i++)
        if (end->log[i].type == type && nth-- == 0)
            return &end->log[i];
    return NULL;
}

struct wish {
    const struct end *end;
    uint32_t type;
    int count;
};

static inline bool has_wish (void *context)
{
    const struct wish *wish = context;

    return count_of (wish->end, wish->type) >= wish->count;
}

/* Drive the ends until one of them has seen `count` events of a type. */
static inline void pump_until (struct end *ends, int n,
                               const struct end *end, uint32_t type,
                               int count)
{
    struct wish wish = { end, type, count };

    pump (ends, n, has_wish, &wish);
}

/* A match entry for everything over `memory`. */
static inline ptl_handle_me_t open_entry (const struct end *end,
                                          ptl_pt_index_t index, void *memory,
                                          size_t size, unsigned options,
                                          ptl_handle_ct_t ct)
{
    ptl_me_t me = {
        .start = memory,
        .length = size,
        .ct_handle = ct,
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE | options,
        .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY },
        .ignore_bits = UINT64_MAX,
    };
    ptl_handle_me_t handle;

    CHECK (PtlMEAppend (end->ni, index, &me, PTL_PRIORITY_LIST, NULL, &handle)
           == PTL_OK);
    return handle;
}

static inline ptl_pt_index_t open_table (const struct end *end,
                                         unsigned options)
{
    ptl_pt_index_t index;

    CHECK (PtlPTAlloc (end->ni, options, end->eq, PTL_PT_ANY, &index)
           == PTL_OK);
    return index;
}

static inline ptl_handle_md_t bind_memory (const struct end *end,
                                           void *memory, size_t size,
                                           unsigned options,
                                           ptl_handle_ct_t ct)
{
    ptl_md_t md = {
        .start = memory,
        .length = size,
        .options = options,
        .eq_handle = end->eq,
        .ct_handle = ct,
    };
    ptl_handle_md_t handle;

    CHECK (PtlMDBind (end->ni, &md, &handle) == PTL_OK);
    return handle;
}

#endif
