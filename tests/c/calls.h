/* calls.h - every call of the interface, with each of its handles.
 *
 * struct given has a valid handle for each argument; call_make makes a fresh
 * set. A call of the table uses some of them; one that is wrong must be the
 * only reason for what the call says.
 */
#ifndef CALLS_H
#define CALLS_H

#include "kinds.h"

enum slot { NI, EQ, CT, MD, GET_MD, ENTRY, TRIGGER, SLOTS };

#define BIT(slot) (1u << (slot))
#define NI_OTHER (NI_OPTIONS ^ PTL_NI_LOGICAL ^ PTL_NI_PHYSICAL)

struct given {
    ptl_handle_any_t handles[SLOTS];
    ptl_process_t self; /* as the interface names it */
    ptl_process_t id;
    ptl_pt_index_t index;
};

struct call {
    const char *name;
    int (*run) (const struct given *given);
    unsigned uses; /* slots */
    unsigned optional; /* slots that may be none */
    unsigned own; /* slots whose interface has to be that of the others */
    enum { ON_ALL, ON_LOGICAL, ON_MATCHING, ON_OTHERS } on;
};

static char call_memory[64];

static ptl_le_t call_le (const struct given *g)
{
    return (ptl_le_t){
        .start = call_memory,
        .length = sizeof (call_memory),
        .ct_handle = g->handles[CT],
        .uid = PTL_UID_ANY,
        .options = PTL_LE_OP_PUT | PTL_LE_OP_GET,
    };
}

static ptl_me_t call_me (const struct given *g)
{
    ptl_me_t me = {
        .start = call_memory,
        .length = sizeof (call_memory),
        .ct_handle = g->handles[CT],
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_OP_GET,
        .ignore_bits = UINT64_MAX,
        .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY },
    };

    if (IS_LOGICAL)
        me.match_id.rank = PTL_RANK_ANY;
    return me;
}

#define CALL(name, expression)                                          \
    static inline int do_##name (const struct given *g)                 \
    {                                                                   \
        const ptl_handle_any_t *h = g->handles;                         \
        ptl_le_t le = call_le (g);                                      \
        ptl_me_t me = call_me (g);                                      \
        union {                                                         \
            ptl_handle_any_t handle;                                    \
            ptl_process_t id;                                           \
            ptl_uid_t uid;                                              \
            ptl_event_t event;                                          \
            ptl_ct_event_t count;                                       \
            ptl_sr_value_t status;                                      \
            ptl_pt_index_t index;                                       \
        } out;                                                          \
        ptl_size_t size = 0;                                            \
        unsigned which;                                                 \
        int64_t operand = 0;                                            \
                                                                        \
        (void)h, (void)le, (void)me, (void)out, (void)size;             \
        (void)which, (void)operand;                                     \
        return expression;                                              \
    }

#define ONE ((ptl_ct_event_t){ 1, 0 })
#define PUT_ARGUMENTS                                                   \
    h[MD], 0, 8, PTL_CT_ACK_REQ, g->self, g->index, 0, 0, NULL, 0
#define GET_ARGUMENTS h[MD], 0, 8, g->self, g->index, 0, 0, NULL
#define FETCH_ARGUMENTS                                                 \
    h[GET_MD], 0, h[MD], 0, 8, g->self, g->index, 0, 0, NULL, 0
#define WHEN h[TRIGGER], 2

CALL (PtlNIInit, PtlNIInit (PTL_IFACE_DEFAULT, NI_OPTIONS, PTL_PID_ANY, NULL,
                            NULL, &out.handle))
CALL (PtlNIFini, PtlNIFini (h[NI]))
CALL (PtlNIStatus, PtlNIStatus (h[NI], PTL_SR_DROP_COUNT, &out.status))
CALL (PtlNIHandle, PtlNIHandle (h[NI], &out.handle))
CALL (PtlSetMap, PtlSetMap (h[NI], 1, &g->id))
CALL (PtlGetMap, PtlGetMap (h[NI], 1, &out.id, &size))
CALL (PtlGetUid, PtlGetUid (h[NI], &out.uid))
CALL (PtlGetId, PtlGetId (h[NI], &out.id))
CALL (PtlGetPhysId, PtlGetPhysId (h[NI], &out.id))
CALL (PtlPTAlloc, PtlPTAlloc (h[NI], 0, h[EQ], PTL_PT_ANY, &out.index))
CALL (PtlPTFree, PtlPTFree (h[NI], g->index))
CALL (PtlPTDisable, PtlPTDisable (h[NI], g->index))
CALL (PtlPTEnable, PtlPTEnable (h[NI], g->index))
CALL (PtlMDBind, PtlMDBind (h[NI],
                            &(ptl_md_t){ .eq_handle = h[EQ],
                                         .ct_handle = h[CT] },
                            &out.handle))
CALL (PtlMDRelease, PtlMDRelease (h[MD]))
CALL (PtlLEAppend, PtlLEAppend (h[NI], g->index, &le, PTL_PRIORITY_LIST, NULL,
                                &out.handle))
CALL (PtlLEUnlink, PtlLEUnlink (h[ENTRY]))
CALL (PtlLESearch, PtlLESearch (h[NI], g->index, &le, PTL_SEARCH_ONLY, NULL))
CALL (PtlMEAppend, PtlMEAppend (h[NI], g->index, &me, PTL_PRIORITY_LIST, NULL,
                                &out.handle))
CALL (PtlMEUnlink, PtlMEUnlink (h[ENTRY]))
CALL (PtlMESearch, PtlMESearch (h[NI], g->index, &me, PTL_SEARCH_ONLY, NULL))
CALL (PtlEQAlloc, PtlEQAlloc (h[NI], 4, &out.handle))
CALL (PtlEQFree, PtlEQFree (h[EQ]))
CALL (PtlEQGet, PtlEQGet (h[EQ], &out.event))
CALL (PtlEQWait, PtlEQWait (h[EQ], &out.event))
CALL (PtlEQPoll, PtlEQPoll (&h[EQ], 1, 0, &out.event, &which))
CALL (PtlCTAlloc, PtlCTAlloc (h[NI], &out.handle))
CALL (PtlCTFree, PtlCTFree (h[CT]))
CALL (PtlCTGet, PtlCTGet (h[CT], &out.count))
CALL (PtlCTWait, PtlCTWait (h[CT], 0, &out.count))
CALL (PtlCTPoll, PtlCTPoll (&h[CT], &size, 1, 0, &out.count, &which))
CALL (PtlCTSet, PtlCTSet (h[CT], ONE))
CALL (PtlCTInc, PtlCTInc (h[CT], ONE))
CALL (PtlCTCancelTriggered, PtlCTCancelTriggered (h[CT]))
CALL (PtlPut, PtlPut (PUT_ARGUMENTS))
CALL (PtlGet, PtlGet (GET_ARGUMENTS))
CALL (PtlAtomic, PtlAtomic (PUT_ARGUMENTS, PTL_SUM, PTL_INT64_T))
CALL (PtlFetchAtomic, PtlFetchAtomic (FETCH_ARGUMENTS, PTL_SUM, PTL_INT64_T))
CALL (PtlSwap, PtlSwap (FETCH_ARGUMENTS, &operand, PTL_CSWAP, PTL_INT64_T))
CALL (PtlAtomicSync, PtlAtomicSync ())
CALL (PtlTriggeredPut, PtlTriggeredPut (PUT_ARGUMENTS, WHEN))
CALL (PtlTriggeredGet, PtlTriggeredGet (GET_ARGUMENTS, WHEN))
CALL (PtlTriggeredAtomic,
      PtlTriggeredAtomic (PUT_ARGUMENTS, PTL_SUM, PTL_INT64_T, WHEN))
CALL (PtlTriggeredFetchAtomic,
      PtlTriggeredFetchAtomic (FETCH_ARGUMENTS, PTL_SUM, PTL_INT64_T, WHEN))
CALL (PtlTriggeredSwap, PtlTriggeredSwap (FETCH_ARGUMENTS, &operand,
                                          PTL_CSWAP, PTL_INT64_T, WHEN))
CALL (PtlTriggeredCTSet, PtlTriggeredCTSet (h[CT], ONE, WHEN))
CALL (PtlTriggeredCTInc, PtlTriggeredCTInc (h[CT], ONE, WHEN))
CALL (PtlTriggeredLEAppend,
      PtlTriggeredLEAppend (h[NI], g->index, &le, PTL_PRIORITY_LIST, NULL,
                            &out.handle, WHEN))
CALL (PtlTriggeredLEUnlink, PtlTriggeredLEUnlink (h[ENTRY], WHEN))
CALL (PtlTriggeredMEAppend,
      PtlTriggeredMEAppend (h[NI], g->index, &me, PTL_PRIORITY_LIST, NULL,
                            &out.handle, WHEN))
CALL (PtlTriggeredMEUnlink, PtlTriggeredMEUnlink (h[ENTRY], WHEN))
CALL (PtlStartBundle, PtlStartBundle (h[NI]))
CALL (PtlEndBundle, PtlEndBundle (h[NI]))

#define ROW_ON(on, name, ...) { #name, do_##name, __VA_ARGS__, on }
#define ROW(name, ...) ROW_ON (ON_ALL, name, __VA_ARGS__)
#define ENTRY_ROWS(on, sort)                                            \
    ROW_ON (on, Ptl##sort##Append, BIT (NI) | BIT (CT), BIT (CT),       \
            BIT (CT)),                                                  \
    ROW_ON (on, Ptl##sort##Unlink, BIT (ENTRY), 0, 0),                  \
    ROW_ON (on, Ptl##sort##Search, BIT (NI) | BIT (CT), BIT (CT),       \
            BIT (CT)),                                                  \
    ROW_ON (on, PtlTriggered##sort##Append,                             \
            BIT (NI) | BIT (CT) | BIT (TRIGGER), BIT (CT),              \
            BIT (CT) | BIT (TRIGGER)),                                  \
    ROW_ON (on, PtlTriggered##sort##Unlink, BIT (ENTRY) | BIT (TRIGGER), 0, \
            BIT (TRIGGER))

/* All that name a handle or none. */
__attribute__ ((unused)) static const struct call calls[] = {
    ROW (PtlNIInit, 0, 0, 0),
    ROW (PtlNIStatus, BIT (NI), 0, 0),
    ROW (PtlNIHandle, BIT (NI), 0, 0),
    ROW_ON (ON_LOGICAL, PtlGetMap, BIT (NI), 0, 0),
    ROW_ON (ON_LOGICAL, PtlSetMap, BIT (NI), 0, 0),
    ROW (PtlGetUid, BIT (NI), 0, 0),
    ROW (PtlGetId, BIT (NI), 0, 0),
    ROW (PtlGetPhysId, BIT (NI), 0, 0),
    ROW (PtlPTAlloc, BIT (NI) | BIT (EQ), BIT (EQ), BIT (EQ)),
    ROW (PtlPTFree, BIT (NI), 0, 0),
    ROW (PtlPTDisable, BIT (NI), 0, 0),
    ROW (PtlPTEnable, BIT (NI), 0, 0),
    ROW (PtlMDBind, BIT (NI) | BIT (EQ) | BIT (CT), BIT (EQ) | BIT (CT),
         BIT (EQ) | BIT (CT)),
    ROW (PtlMDRelease, BIT (MD), 0, 0),
    ENTRY_ROWS (ON_OTHERS, LE),
    ENTRY_ROWS (ON_MATCHING, ME),
    ROW (PtlEQAlloc, BIT (NI), 0, 0),
    ROW (PtlEQGet, BIT (EQ), 0, 0),
    ROW (PtlEQWait, BIT (EQ), 0, 0),
    ROW (PtlEQPoll, BIT (EQ), 0, 0),
    ROW (PtlEQFree, BIT (EQ), 0, 0),
    ROW (PtlCTAlloc, BIT (NI), 0, 0),
    ROW (PtlCTGet, BIT (CT), 0, 0),
    ROW (PtlCTWait, BIT (CT), 0, 0),
    ROW (PtlCTPoll, BIT (CT), 0, 0),
    ROW (PtlCTSet, BIT (CT), 0, 0),
    ROW (PtlCTInc, BIT (CT), 0, 0),
    ROW (PtlCTCancelTriggered, BIT (CT), 0, 0),
    ROW (PtlCTFree, BIT (CT), 0, 0),
    ROW (PtlPut, BIT (MD), 0, 0),
    ROW (PtlGet, BIT (MD), 0, 0),
    ROW (PtlAtomic, BIT (MD), 0, 0),
    ROW (PtlFetchAtomic, BIT (MD) | BIT (GET_MD), 0, BIT (GET_MD)),
    ROW (PtlSwap, BIT (MD) | BIT (GET_MD), 0, BIT (GET_MD)),
    ROW (PtlAtomicSync, 0, 0, 0),
    ROW (PtlTriggeredPut, BIT (MD) | BIT (TRIGGER), 0, BIT (TRIGGER)),
    ROW (PtlTriggeredGet, BIT (MD) | BIT (TRIGGER), 0, BIT (TRIGGER)),
    ROW (PtlTriggeredAtomic, BIT (MD) | BIT (TRIGGER), 0, BIT (TRIGGER)),
    ROW (PtlTriggeredFetchAtomic, BIT (MD) | BIT (GET_MD) | BIT (TRIGGER), 0,
         BIT (GET_MD) | BIT (TRIGGER)),
    ROW (PtlTriggeredSwap, BIT (MD) | BIT (GET_MD) | BIT (TRIGGER), 0,
         BIT (GET_MD) | BIT (TRIGGER)),
    ROW (PtlTriggeredCTSet, BIT (CT) | BIT (TRIGGER), 0, BIT (TRIGGER)),
    ROW (PtlTriggeredCTInc, BIT (CT) | BIT (TRIGGER), 0, BIT (TRIGGER)),
    ROW (PtlStartBundle, BIT (NI), 0, 0),
    ROW (PtlEndBundle, BIT (NI), 0, 0),
    ROW (PtlNIFini, BIT (NI), 0, 0), /* the last: it may end the interface */
};

#define CALLS ((int)(sizeof (calls) / sizeof (*calls)))

/* Is it valid on this kind of interface? */
static inline bool call_is_valid (const struct call *call)
{
    switch (call->on) {
    case ON_LOGICAL:
        return IS_LOGICAL;
    case ON_MATCHING:
        return IS_MATCHING;
    case ON_OTHERS:
        return !IS_MATCHING;
    default:
        return true;
    }
}

/* An interface of PtlNIInit; a logical one has a map of this process alone. */
static inline ptl_handle_ni_t call_interface (unsigned options)
{
    ptl_handle_ni_t ni;
    ptl_process_t id;

    CHECK (PtlNIInit (PTL_IFACE_DEFAULT, options, PTL_PID_ANY, NULL, NULL,
                      &ni)
           == PTL_OK);
    CHECK (PtlGetPhysId (ni, &id) == PTL_OK);
    if (options & PTL_NI_LOGICAL)
        CHECK (PtlSetMap (ni, 1, &id) == PTL_OK);
    return ni;
}

/* A fresh object for each argument. The queue has the event of an entry. */
static inline void call_make (ptl_handle_ni_t ni, struct given *g)
{
    ptl_handle_any_t *h = g->handles;
    entry_t entry = entry_of (call_memory, 8, PTL_LE_OP_PUT | PTL_LE_OP_GET);
    ptl_md_t md = { .start = call_memory, .length = 8,
                    .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE };

    h[NI] = ni;
    CHECK (PtlGetId (ni, &g->self) == PTL_OK);
    CHECK (PtlGetPhysId (ni, &g->id) == PTL_OK);
    CHECK (PtlEQAlloc (ni, 16, &h[EQ]) == PTL_OK);
    CHECK (PtlCTAlloc (ni, &h[CT]) == PTL_OK);
    CHECK (PtlCTAlloc (ni, &h[TRIGGER]) == PTL_OK);
    md.ct_handle = h[CT];
    CHECK (PtlMDBind (ni, &md, &h[MD]) == PTL_OK);
    CHECK (PtlMDBind (ni, &md, &h[GET_MD]) == PTL_OK);
    CHECK (PtlPTAlloc (ni, 0, h[EQ], PTL_PT_ANY, &g->index) == PTL_OK);
    CHECK (entry_append (ni, g->index, &entry, PTL_PRIORITY_LIST, NULL,
                         &h[ENTRY])
           == PTL_OK);
}

#endif
