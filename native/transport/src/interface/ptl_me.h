/* ptl_me.h - entry: memory that arriving operations are matched to.
 *
 * A list entry (of an interface without matching) is a match entry that
 * matches everything. An entry is linked (it can match) or only held: by
 * operations that are under way and by headers that nobody has taken. One
 * that unlinks itself (USE_ONCE, min_free) lives until it is held no longer;
 * then a priority entry posts AUTO_UNLINK, so that event always says "this
 * memory is yours again". An overflow entry posts AUTO_UNLINK right behind the
 * operation that used it up, so that another can take its place, and AUTO_FREE
 * at the end.
 */
#ifndef PTL_ME_H
#define PTL_ME_H

#include "portals4_ext.h"
#include "ptl_list.h"
#include "ptl_mem.h"
#include "ptl_op.h"

struct ptl_ni;
struct ptl_ct;
struct ptl_me;
struct ptl_pt;
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
    struct ptl_work work; /* first: an append or unlink that is triggered */
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
    unsigned busy;     /* operations under way, headers it takes */
    unsigned n_headers; /* that it has left and nobody has finished with */
    unsigned found;     /* headers that it has taken or seen */
    bool is_probed; /* some of its memory may be inaccessible */
    bool is_linked;
    bool is_waiting; /* for its trigger, to be linked */
    bool is_silent;  /* unlinked by its user: no event says that it is free */
    bool is_search;  /* looks at headers only, and is never linked */
    const struct ptl_me_owner *owner;
    void *object; /* of the owner */
};

/* Make an entry that is not linked yet.
 *   PTL_OK
 *   PTL_ARG_INVALID    table entry not allocated; options, list, memory,
 *                      match id
 *   PTL_NO_SPACE       the limit, or memory
 */
int ptl_me_alloc (struct ptl_ni *ni, unsigned index, const ptl_me_t *me,
                  struct ptl_ct *ct, ptl_list_t list, void *user_ptr,
                  struct ptl_me **mep);

/* Link it, after it has taken the headers that it matches; a USE_ONCE entry
 * that takes one is not linked. *me may be freed by this.
 *   PTL_OK, PTL_LIST_TOO_LONG (nothing has been done) */
int ptl_me_link (struct ptl_me *me);

/* Make and link an entry of an internal owner. */
int ptl_me_append (struct ptl_ni *ni, unsigned index, const ptl_me_t *me,
                   struct ptl_ct *ct, ptl_list_t list, void *user_ptr,
                   struct ptl_me **mep);

/* PTL_OK, PTL_IN_USE (an operation is under way, or a header is left; it is
 * still linked). */
int ptl_me_unlink (struct ptl_me *me);

/* Link it when `trigger` reaches the threshold; its place in the list is
 * reserved until then. PTL_OK, PTL_NO_SPACE, PTL_LIST_TOO_LONG. */
int ptl_me_link_later (struct ptl_me *me, struct ptl_ct *trigger,
                       uint64_t threshold);

/* At the threshold, unlink the entry that has this handle then; if it is in use
 * it is freed afterwards. PTL_OK, PTL_NO_SPACE. */
int ptl_me_unlink_later (struct ptl_me *me, struct ptl_ct *trigger,
                         uint64_t threshold);

/* Look at the headers left on a table entry; events tell what was found.
 * PTL_OK, PTL_ARG_INVALID, PTL_NO_SPACE. */
int ptl_me_search (struct ptl_ni *ni, unsigned index, const ptl_me_t *me,
                   struct ptl_ct *ct, ptl_search_op_t operation,
                   void *user_ptr);

/* Free it even if operations are under way; only while the interface ends. */
void ptl_me_free (struct ptl_me *me);

/* Free the memory of entries that were freed. */
void ptl_me_free_spare (struct ptl_ni *ni);

/* An operation begins, and takes `taken` of a locally managed entry. True: it
 * has used the entry up. */
bool ptl_me_begin (struct ptl_me *me, uint64_t taken);

/* Would an operation that takes so much use the entry up? */
bool ptl_me_is_last (const struct ptl_me *me, uint64_t taken);

/* The event of the operation that used it up has been posted: post AUTO_UNLINK
 * where that comes next. */
void ptl_me_used_up (struct ptl_me *me);

/* An operation has ended; this may free the entry. */
void ptl_me_end (struct ptl_me *me);

/* Free it if nothing holds it any more. */
void ptl_me_release (struct ptl_me *me);

/* Count an event of this entry; `option` says of which kind it is. */
void ptl_me_count (struct ptl_me *me, unsigned option, int fail,
                   uint64_t mlength);

#endif
