/* ptl_ni.h - network interface: what the objects of Portals hang off.
 *
 * One of the four kinds on an endpoint: with matching or without, addressed by
 * rank or by id. It has a portal table, limits, and all that was made from its
 * handle. Peers and sockets are the endpoint's.
 */
#ifndef PTL_NI_H
#define PTL_NI_H

#include "portals4_ext.h"
#include "ptl_list.h"
#include "ptl_pt.h"
#include "ptl_wire.h"

struct ptl_end;
struct ptl_map;

struct ptl_ni {
    struct ptl_end *end;
    uint32_t handle;
    unsigned users; /* PtlNIInit calls without their PtlNIFini */
    unsigned n_bundles; /* open */
    uint8_t kind;   /* enum ptl_ni_kind */
    ptl_ni_limits_t limits;
    struct ptl_pt *pt; /* limits.max_pt_index + 1 */
    struct ptl_node eqs, cts, mds, mes;
    struct ptl_node spare_mes, spare_headers; /* memory to be used again */
    int n_eqs, n_cts, n_mds, n_entries, n_triggered, n_unexpected;
    unsigned status[PTL_SR_OPERATION_VIOLATIONS + 1];
    struct ptl_map *map; /* of ranks, or NULL */
};

/* The kind that options of PtlNIInit name; -1: not one of each pair. */
int ptl_ni_kind_of (unsigned options);

static inline bool ptl_ni_is_logical (const struct ptl_ni *ni)
{
    return ni->kind & PTL_KIND_LOGICAL;
}

static inline bool ptl_ni_is_matching (const struct ptl_ni *ni)
{
    return !(ni->kind & PTL_KIND_NO_MATCHING);
}

/* Make an interface on an endpoint that has none of this kind; `desired` may
 * be NULL. PTL_OK, PTL_NO_SPACE. */
int ptl_ni_alloc (struct ptl_end *end, int kind,
                  const ptl_ni_limits_t *desired, struct ptl_ni **nip);

/* Cancel all its triggered operations. */
void ptl_ni_cancel (struct ptl_ni *ni);

/* Free it with everything that was made from it. The endpoint must not have
 * operations under way that use its memory. */
void ptl_ni_free (struct ptl_ni *ni);

/* The table entry, or NULL: there is none, or it is not allocated. */
struct ptl_pt *ptl_ni_pt (const struct ptl_ni *ni, uint32_t index);

#endif
