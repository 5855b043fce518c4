/* frames_world.h - the end that fuzz_frames.c attacks, and its two attackers.
 *
 * The end has entries of several kinds, an armed object with a child, and
 * operations outstanding to the two attackers.
 */
#ifndef FRAMES_WORLD_H
#define FRAMES_WORLD_H

#include "fuzz.h"

#define ATTACKERS 2
#define OPS 8
#define SEEN 8
#define OBJECT_BITS (UINT64_C (9) << 16 | 4)
#define OBJECT_BYTES 5000
#define CHUNK_BYTES 1000
#define LARGE_BYTES 600000u
#define MOST_SENT (1u << 20) /* by the attackers, an input */
#define MOST_ENTRIES 16

/* An operation in fragments that an attacker has begun. */
struct begun {
    uint32_t fragment; /* next; 0: none is open */
    uint64_t received, total;
    uint8_t lane, pt_index;
};

/* An operation of the end that an attacker has seen. */
struct seen {
    uint32_t index, generation;
    uint64_t length;
    uint64_t replied; /* bytes */
    uint32_t fragment;
};

struct attacker {
    int fd; /* -1: not connected */
    uint32_t pid;
    uint64_t incarnation;
    struct begun begun[OPS];
    struct seen seen[SEEN];
    unsigned n_seen;
    uint8_t header[PTL_HEADER_BYTES]; /* half read */
    size_t have, skip;
};

struct world {
    struct end end, neighbour;
    struct attacker attackers[ATTACKERS], *now;
    struct input in;
    size_t sent;
    int n_entries;
    ptl_handle_md_t md;
    ptl_handle_ct_t ct;
    ptl_handle_me_t entry;
    uint8_t *memory[3]; /* on the heap: nothing may be written beside them */
};

static uint8_t large[LARGE_BYTES];
static uint8_t payload[PTL_PAYLOAD_MAX];
static struct sockaddr_un end_path;
static int object_fd;

/* Lengths at the edges of what is allowed, by one byte of the input. */
static inline uint64_t size_of (uint8_t byte)
{
    static const uint64_t edges[] = {
        256, 999, 1000, 1001, 4096, 5000, 65471, 65472, 65535, 65536, 65537,
        262143, 262144, 262145, 600000, 1u << 31, UINT32_MAX,
        UINT64_C (1) << 48, (UINT64_C (1) << 48) + 1, UINT64_MAX,
    };
    const size_t n = sizeof (edges) / sizeof (*edges);

    return byte < 256 - n ? byte : edges[byte - (256 - n)];
}

/* ---- the end ---- */

static inline void add_entry (struct world *w, ptl_pt_index_t index,
                              uint8_t *memory, unsigned options,
                              uint64_t bits, ptl_list_t list)
{
    ptl_me_t me = {
        .start = memory,
        .length = 1000,
        .ct_handle = w->ct,
        .min_free = 100,
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_OP_GET | options,
        .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY },
        .match_bits = bits,
        .ignore_bits = bits ? 0 : UINT64_MAX,
    };

    if (w->n_entries++ >= MOST_ENTRIES)
        return;
    HOLDS (PtlMEAppend (w->end.ni, index, &me, list, NULL, &w->entry)
           == PTL_OK);
}

static inline void add_entries (struct world *w)
{
    add_entry (w, 0, w->memory[0],
               PTL_ME_MANAGE_LOCAL | PTL_ME_EVENT_LINK_DISABLE, 0,
               PTL_PRIORITY_LIST);
    add_entry (w, 2, w->memory[1], PTL_ME_EVENT_CT_COMM, 0,
               PTL_PRIORITY_LIST);
    add_entry (w, 3, w->memory[2], PTL_ME_USE_ONCE | PTL_ME_EVENT_CT_COMM, 0,
               PTL_PRIORITY_LIST);
    add_entry (w, 4, w->memory[1], PTL_ME_NO_TRUNCATE | PTL_ME_ACK_DISABLE, 3,
               PTL_PRIORITY_LIST);
    add_entry (w, 4, w->memory[2],
               PTL_ME_UNEXPECTED_HDR_DISABLE | PTL_ME_MANAGE_LOCAL, 0,
               PTL_OVERFLOW_LIST);
}

static inline void arm_object (struct world *w, bool is_source)
{
    ptl_process_t child = { .phys = { LOOPBACK, w->attackers[1].pid } };
    struct ptlx_object object = {
        .match_bits = OBJECT_BITS,
        .job_id = 9,
        .size = OBJECT_BYTES,
        .chunk_bytes = CHUNK_BYTES,
        .children = &child,
        .n_children = 1,
        .fd = object_fd,
        .is_source = is_source,
    };
    int rc = PtlxForward (w->end.ni, &object);

    HOLDS (rc == PTL_OK || rc == PTL_IN_USE);
}

static inline void open_ends (struct world *w)
{
    struct ptlx_config config = {
        .listen_pid = PTLX_NO_LISTEN,
        .unix_path = end_path.sun_path,
        .partition_key = partition_key,
    };
    ptl_md_t md = { .start = large, .length = sizeof (large),
                    .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE };
    ptl_pt_index_t index;

    end_open (&w->end, &config);
    config.unix_path = NULL;
    end_open (&w->neighbour, &config);
    open_for_neighbour (&w->end, w->neighbour.id.phys.nid,
                        w->neighbour.id.phys.pid);
    for (unsigned i = 0; i < 5; i++)
        if (i != 1) /* objects */
            HOLDS (PtlPTAlloc (w->end.ni, i == 0 || i == 3 ? PTL_PT_FLOWCTRL
                                                           : 0,
                               w->end.eq, i, &index)
                   == PTL_OK);
    HOLDS (PtlCTAlloc (w->end.ni, &w->ct) == PTL_OK);
    for (int i = 0; i < 3; i++)
        HOLDS ((w->memory[i] = calloc (1, 1000)));
    md.eq_handle = w->end.eq;
    md.ct_handle = w->ct;
    md.options = PTL_MD_EVENT_CT_ACK;
    HOLDS (PtlMDBind (w->end.ni, &md, &w->md) == PTL_OK);
    add_entries (w);
    arm_object (w, false);
}

#endif
