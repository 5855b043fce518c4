#include "ptl_md.h"

#include <stdlib.h>

#include "ptl_ct.h"
#include "ptl_eq.h"
#include "ptl_handle.h"
#include "ptl_ni.h"

#define MD_OPTIONS                                                      \
    (PTL_IOVEC | PTL_MD_EVENT_SUCCESS_DISABLE | PTL_MD_EVENT_CT_SEND    \
     | PTL_MD_EVENT_CT_REPLY | PTL_MD_EVENT_CT_ACK                      \
     | PTL_MD_EVENT_CT_BYTES | PTL_MD_UNORDERED | PTL_MD_VOLATILE       \
     | PTL_MD_EVENT_SEND_DISABLE | PTL_MD_UNRELIABLE)

int ptl_md_bind (struct ptl_ni *ni, const ptl_md_t *md, struct ptl_eq *eq,
                 struct ptl_ct *ct, struct ptl_md **mdp)
{
    struct ptl_md *new;
    int rc;

    if (md->options & ~MD_OPTIONS)
        return PTL_ARG_INVALID;
    if (ni->n_mds >= ni->limits.max_mds || !(new = calloc (1, sizeof (*new))))
        return PTL_NO_SPACE;
    rc = ptl_mem_init (&new->mem, md->start, md->length, md->options,
                       ni->limits.max_iovecs);
    if (rc != PTL_OK) {
        free (new);
        return rc;
    }
    new->ni = ni;
    new->md = *md;
    new->eq = eq;
    new->ct = ct;
    if (eq)
        eq->users++;
    if (ct)
        ct->users++;
    ptl_list_append (&ni->mds, &new->node);
    ni->n_mds++;
    *mdp = new;
    return PTL_OK;
}

int ptl_md_release (struct ptl_md *md)
{
    if (md->users > 0)
        return PTL_IN_USE;
    if (md->eq)
        md->eq->users--;
    if (md->ct)
        md->ct->users--;
    ptl_handle_forget (md->handle);
    md->ni->n_mds--;
    ptl_list_remove (&md->node);
    ptl_mem_free (&md->mem);
    free (md);
    return PTL_OK;
}
