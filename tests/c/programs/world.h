/* world.h - a parallel program's beginning and end: PMI-1, ids, interfaces.
 *
 * The programs of this directory are written to the Portals specification and to
 * PMI-1 alone, as a user of both would. Each exits with 0 when all was right.
 * One that says "kinds: all" (or "matching", "no matching") is built with
 * -DKIND=0 to 3: bit 0 is logical addressing, bit 1 is no matching.
 */
#ifndef WORLD_H
#define WORLD_H

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pmi.h>
#include <portals4.h>

#ifndef TOO_LONG_S
#define TOO_LONG_S 110u
#endif

#ifndef KIND
#define KIND 1
#endif
#include "../kind.h"

static int rank, size;
static _Atomic int last_line; /* for the case that nothing more happens */

#define CHECK(condition)                                                \
    do {                                                                \
        last_line = __LINE__;                                           \
        if (!(condition))                                               \
            fail (__LINE__, #condition, 0);                             \
    } while (0)
#define OK(call)                                                        \
    do {                                                                \
        last_line = __LINE__;                                           \
        int code_ = (call);                                             \
        if (code_ != PTL_OK)                                            \
            fail (__LINE__, #call, code_);                              \
    } while (0)

static int fail (int line, const char *what, int code)
{
    fprintf (stderr, "rank %d: line %d: %s: %d\n", rank, line, what, code);
    PMI_Abort (1, "not as it should be");
    exit (1);
}

static void too_long (int number)
{
    char text[80];
    int n = snprintf (text, sizeof (text),
                      "rank %d: no end of what line %d began\n", rank,
                      last_line);

    (void)number;
    if (write (2, text, (size_t)n) < 0)
        _exit (2);
    _exit (1);
}

static inline void world_open (void)
{
    int spawned;

    signal (SIGALRM, too_long);
    alarm (TOO_LONG_S);
    CHECK (PMI_Init (&spawned) == PMI_SUCCESS);
    CHECK (PMI_Get_rank (&rank) == PMI_SUCCESS);
    CHECK (PMI_Get_size (&size) == PMI_SUCCESS);
    OK (PtlInit ());
}

static inline int world_close (void)
{
    CHECK (PMI_Barrier () == PMI_SUCCESS);
    PtlFini ();
    CHECK (PMI_Finalize () == PMI_SUCCESS);
    return 0;
}

static inline void barrier (void)
{
    CHECK (PMI_Barrier () == PMI_SUCCESS);
}

/* What everybody's physical id is, by the key-value space. */
static inline ptl_process_t *world_ids (ptl_handle_ni_t ni)
{
    static int calls;
    ptl_process_t *ids = calloc ((size_t)size, sizeof (*ids)), own;
    char name[256], key[64], value[64];

    CHECK (ids);
    OK (PtlGetPhysId (ni, &own));
    CHECK (PMI_KVS_Get_my_name (name, sizeof (name)) == PMI_SUCCESS);
    calls++;
    snprintf (key, sizeof (key), "id-%d-%d", calls, rank);
    snprintf (value, sizeof (value), "%u %u", own.phys.nid, own.phys.pid);
    CHECK (PMI_KVS_Put (name, key, value) == PMI_SUCCESS);
    CHECK (PMI_KVS_Commit (name) == PMI_SUCCESS);
    barrier ();
    for (int i = 0; i < size; i++) {
        snprintf (key, sizeof (key), "id-%d-%d", calls, i);
        CHECK (PMI_KVS_Get (name, key, value, sizeof (value)) == PMI_SUCCESS);
        CHECK (sscanf (value, "%u %u", &ids[i].phys.nid, &ids[i].phys.pid)
               == 2);
    }
    return ids;
}

/* An interface, and what to call each rank on it. On a logical one that has no
 * map a map is set. */
static inline ptl_process_t *
world_interface (unsigned int options, const ptl_ni_limits_t *desired,
                 ptl_ni_limits_t *actual, ptl_handle_ni_t *ni)
{
    ptl_process_t *ids, own;
    ptl_size_t known = 0;

    OK (PtlNIInit (PTL_IFACE_DEFAULT, options, PTL_PID_ANY, desired, actual,
                   ni));
    ids = world_ids (*ni);
    if (!(options & PTL_NI_LOGICAL))
        return ids;
    if (PtlGetMap (*ni, 0, NULL, &known) != PTL_OK) {
        OK (PtlSetMap (*ni, (ptl_size_t)size, ids));
        OK (PtlGetMap (*ni, 0, NULL, &known));
    }
    CHECK (known == (ptl_size_t)size);
    OK (PtlGetId (*ni, &own));
    CHECK (own.rank == (ptl_rank_t)rank);
    for (int i = 0; i < size; i++)
        ids[i] = (ptl_process_t){ .rank = (ptl_rank_t)i };
    return ids;
}

/* An entry that takes everything from everybody. */
static inline entry_t entry_of (void *start, size_t length,
                                unsigned int options, ptl_handle_ct_t ct)
{
    entry_t entry;

    memset (&entry, 0, sizeof (entry));
    entry.start = start;
    entry.length = length;
    entry.ct_handle = ct;
    entry.uid = PTL_UID_ANY;
    entry.options = options;
    entry.ignore_bits = ~(ptl_match_bits_t)0;
    if (IS_LOGICAL)
        entry.match_id.rank = PTL_RANK_ANY;
    else {
        entry.match_id.phys.nid = PTL_NID_ANY;
        entry.match_id.phys.pid = PTL_PID_ANY;
    }
    return entry;
}

/* An entry that is linked for good at a table entry of its own. */
static inline ptl_pt_index_t expose (ptl_handle_ni_t ni, ptl_pt_index_t index,
                                     void *start, size_t length,
                                     unsigned int options, ptl_handle_ct_t ct)
{
    entry_t entry = entry_of (start, length, options, ct);
    ptl_handle_me_t handle;
    ptl_pt_index_t given;

    OK (PtlPTAlloc (ni, 0, PTL_EQ_NONE, index, &given));
    CHECK (index == PTL_PT_ANY || given == index);
    OK (entry_append (ni, given, &entry, PTL_PRIORITY_LIST, NULL, &handle));
    return given;
}

static inline ptl_handle_md_t bind_md (ptl_handle_ni_t ni, void *start,
                                       size_t length, unsigned int options,
                                       ptl_handle_eq_t eq, ptl_handle_ct_t ct)
{
    ptl_md_t md = { start, length, options, eq, ct };
    ptl_handle_md_t handle;

    OK (PtlMDBind (ni, &md, &handle));
    return handle;
}

/* A counter gets there, and nothing failed. */
static inline void wait_count (ptl_handle_ct_t ct, ptl_size_t n)
{
    ptl_ct_event_t value;

    OK (PtlCTWait (ct, n, &value));
    if (value.failure)
        fprintf (stderr, "rank %d: %ju ok, %ju failed\n", rank,
                 (uintmax_t)value.success, (uintmax_t)value.failure);
    CHECK (value.failure == 0 && value.success >= n);
}

/* Numbers that look random; the same for the same seed. */
static inline uint32_t next_random (uint64_t *state)
{
    *state = *state * UINT64_C (6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static inline void fill (void *start, size_t length, uint64_t seed)
{
    unsigned char *bytes = start;

    for (size_t i = 0; i < length; i++)
        bytes[i] = (unsigned char)((i * 131 + (i >> 8) + seed * 29) & 255);
}

static inline bool is_filled (const void *start, size_t length, uint64_t seed)
{
    const unsigned char *bytes = start;

    for (size_t i = 0; i < length; i++)
        if (bytes[i]
            != (unsigned char)((i * 131 + (i >> 8) + seed * 29) & 255))
            return false;
    return true;
}

#endif
