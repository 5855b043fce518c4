/* ptl_me.h - match entry: memory that arriving operations are matched to.
 *
 * An entry is linked (it can match) or only busy (operations on it are still
 * under way). One that unlinks itself (USE_ONCE, min_free) lives until the
 * last of them has ended; then a priority entry posts AUTO_UNLINK, so that
 * event always says "this memory is yours again". An overflow entry posts
 * AUTO_UNLINK at once and AUTO_FREE at the end.
 */
#ifndef PTL_ME_H
#define PTL_ME_H

#include "portals4_ext.h"
#include "ptl_list.h"
#include "ptl_mem.h"

struct ptl_ni;
struct ptl_ct;
struct ptl_me;
struct ptl_rx;
struct ptl_who;

/* An internal owner (an object) in place of events. */
struct ptl_me_owner {
    /* May this initiator write here? Returns ptl_ni_fail_t. */
    int (*permits) (struct ptl_me *me, const struct ptl_who *who,
                    uint64_t offset, uint64_t length);
    /* An operation has ended; fail is ptl_ni_fail_t. */
    void (*landed) (struct ptl_me *me, const struct ptl_rx *rx, int fail);
};

struct ptl_me {
    struct ptl_node node; /* in the portal table entry's list */
    struct ptl_node all;  /* in ni->mes */
    struct ptl_ni *ni;
    uint32_t handle;
    ptl_me_t me;
    struct ptl_mem mem;
    ptl_list_t list;
    unsigned pt_index;
    void *user_ptr;
    struct ptl_ct *ct; /* or NULL */
    uint64_t used;     /* MANAGE_LOCAL: own offset */
    unsigned busy;     /* operations under way */
    bool is_linked;
    const struct ptl_me_owner *owner;
    void *object; /* of the owner */
};

/* Link an entry at the end of a list.
 *   PTL_OK, PTL_ARG_INVALID (entry not allocated, options), PTL_NO_SPACE.
 */
int ptl_me_append (struct ptl_ni *ni, unsigned index, const ptl_me_t *me,
                   struct ptl_ct *ct, ptl_list_t list, void *user_ptr,
                   struct ptl_me **mep);

/* PTL_OK, PTL_IN_USE (an operation is under way; still linked). */
int ptl_me_unlink (struct ptl_me *me);

/* Free it, whatever is under way; only while the interface ends. */
void ptl_me_free (struct ptl_me *me);

/* Does it match? *offset and *mlength say where and how much. */
bool ptl_me_matches (const struct ptl_me *me, const struct ptl_who *who,
                     uint64_t match_bits, uint64_t request_offset,
                     uint64_t length, uint64_t *offset, uint64_t *mlength);

/* An operation begins, and takes `mlength` of a locally managed entry. */
void ptl_me_begin (struct ptl_me *me, uint64_t mlength);

/* It has ended; the entry may be freed by this. */
void ptl_me_end (struct ptl_me *me);

#endif
