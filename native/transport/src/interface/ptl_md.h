/* ptl_md.h - memory descriptor: the initiator's memory and where its events
 * go. It stays bound while an operation uses it. */
#ifndef PTL_MD_H
#define PTL_MD_H

#include "portals4.h"
#include "ptl_list.h"
#include "ptl_mem.h"

struct ptl_ni;
struct ptl_eq;
struct ptl_ct;

struct ptl_md {
    struct ptl_node node; /* in ni->mds */
    struct ptl_ni *ni;
    uint32_t handle;
    unsigned users; /* operations */
    ptl_md_t md;
    struct ptl_mem mem;
    struct ptl_eq *eq; /* or NULL */
    struct ptl_ct *ct; /* or NULL */
};

/* PTL_OK, PTL_ARG_INVALID (unknown option, null memory, too many pieces),
 * PTL_NO_SPACE. */
int ptl_md_bind (struct ptl_ni *ni, const ptl_md_t *md, struct ptl_eq *eq,
                 struct ptl_ct *ct, struct ptl_md **mdp);

/* PTL_OK, PTL_IN_USE (an operation is under way). */
int ptl_md_release (struct ptl_md *md);

#endif
