/* ptl_api_entry.c - public calls: portal table, list entries, match entries. */
#include "ptl_api.h"
#include "ptl_ct.h"
#include "ptl_me.h"
#include "ptl_wait.h"

/* ---- portal table ---- */

int PtlPTAlloc (ptl_handle_ni_t handle, unsigned int options,
                ptl_handle_eq_t eq_handle, ptl_pt_index_t wanted,
                ptl_pt_index_t *index)
{
    struct ptl_ni *ni;
    struct ptl_eq *eq;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!index || ptl_api_find_eq (ni, eq_handle, &eq) != PTL_OK)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    return ptl_leave (ni->end, ptl_pt_alloc (ni, options, eq, wanted, index));
}

int PtlPTFree (ptl_handle_ni_t handle, ptl_pt_index_t index)
{
    struct ptl_ni *ni;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    return ptl_leave (ni->end, ptl_pt_free (ni, index));
}

int PtlPTEnable (ptl_handle_ni_t handle, ptl_pt_index_t index)
{
    struct ptl_ni *ni;
    struct ptl_pt *pt;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!(pt = ptl_ni_pt (ni, index)))
        return ptl_leave (NULL, PTL_ARG_INVALID);
    pt->is_enabled = true;
    ni->end->changes++; /* PtlPTDisable waits no longer */
    return ptl_leave (ni->end, PTL_OK);
}

struct wanted {
    uint32_t ni;
    ptl_pt_index_t index;
};

/* Is nothing under way on the table entry? It may be gone by now. */
static int is_idle (void *context)
{
    const struct wanted *wanted = context;
    struct ptl_ni *ni;
    const struct ptl_pt *pt;

    if (ptl_handle_find (wanted->ni, PTL_HANDLE_NI, &ni) != PTL_OK)
        return PTL_OK;
    pt = ptl_ni_pt (ni, wanted->index);
    return pt && !pt->is_enabled && pt->busy > 0 ? PTL_WAIT_MORE : PTL_OK;
}

/* Limit how long a peer that has begun a put can keep us waiting. */
static int64_t patience (const struct ptl_end *end)
{
    return ptl_clock_ns () + (int64_t)end->config.liveness_ms * 1000000;
}

int PtlPTDisable (ptl_handle_ni_t handle, ptl_pt_index_t index)
{
    struct wanted wanted = { handle, index };
    struct ptl_ni *ni;
    struct ptl_pt *pt;
    struct ptl_end *end;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!(pt = ptl_ni_pt (ni, index)))
        return ptl_leave (NULL, PTL_ARG_INVALID);
    end = ni->end;
    pt->is_enabled = false;
    if (pt->busy > 0
        && ptl_wait (end, is_idle, &wanted, patience (end)) == PTL_WAIT_MORE)
        ptl_end_cut (end, ni, index);
    return ptl_leave (end, PTL_OK);
}

/* ---- what appends and searches share ---- */

/* Make a match entry of a list entry: interfaces without matching ignore the
 * other fields. */
static ptl_me_t of_le (const ptl_le_t *le)
{
    return (ptl_me_t){
        .start = le->start,
        .length = le->length,
        .ct_handle = le->ct_handle,
        .uid = le->uid,
        .options = le->options,
    };
}

/* Find what a call on entries names: the interface, of the right kind, and the
 * counter. PTL_OK: the call has begun. */
static int begin (ptl_handle_ni_t handle, bool is_matching,
                  const ptl_me_t *me, struct ptl_ni **nip,
                  struct ptl_ct **ctp)
{
    int rc = ptl_api_ni (handle, nip);

    if (rc != PTL_OK)
        return rc;
    if (!me || ptl_ni_is_matching (*nip) != is_matching
        || ptl_api_find_ct (*nip, me->ct_handle, ctp) != PTL_OK)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    return PTL_OK;
}

/* When an entry is to be linked or unlinked. */
struct when {
    bool is_triggered;
    ptl_handle_ct_t trigger;
    uint64_t threshold;
};

static int link_or_wait (struct ptl_me *me, const struct when *when,
                         struct ptl_ct *trigger)
{
    return when->is_triggered
        ? ptl_me_link_later (me, trigger, when->threshold)
        : ptl_me_link (me);
}

static int append (ptl_handle_ni_t handle, bool is_matching,
                   ptl_pt_index_t index, const ptl_me_t *me, ptl_list_t list,
                   void *user_ptr, ptl_handle_me_t *me_handle,
                   const struct when *when)
{
    struct ptl_ct *ct, *trigger = NULL;
    struct ptl_ni *ni;
    struct ptl_me *new;
    uint32_t new_handle;
    int rc = begin (handle, is_matching, me, &ni, &ct);

    if (rc != PTL_OK)
        return rc;
    if (!me_handle
        || (when->is_triggered
            && (ptl_api_find_ct (ni, when->trigger, &trigger) != PTL_OK
                || !trigger)))
        return ptl_leave (NULL, PTL_ARG_INVALID);
    if ((rc = ptl_me_alloc (ni, index, me, ct, list, user_ptr, &new))
        != PTL_OK)
        return ptl_leave (NULL, rc);
    rc = ptl_handle_add (PTL_HANDLE_ME, new, &new->handle);
    new_handle = new->handle;
    if (rc != PTL_OK || (rc = link_or_wait (new, when, trigger)) != PTL_OK) {
        ptl_me_free (new);
        return ptl_leave (NULL, rc);
    }
    *me_handle = new_handle;
    return ptl_leave (ni->end, PTL_OK);
}

static int search (ptl_handle_ni_t handle, bool is_matching,
                   ptl_pt_index_t index, const ptl_me_t *me,
                   ptl_search_op_t operation, void *user_ptr)
{
    struct ptl_ni *ni;
    struct ptl_ct *ct;
    int rc = begin (handle, is_matching, me, &ni, &ct);

    if (rc != PTL_OK)
        return rc;
    return ptl_leave (ni->end,
                      ptl_me_search (ni, index, me, ct, operation, user_ptr));
}

/* Find an entry on an interface of the right kind. PTL_OK: the call has
 * begun. */
static int find (ptl_handle_me_t handle, bool is_matching,
                 struct ptl_me **mep)
{
    int rc = ptl_api_me (handle, mep);

    if (rc == PTL_OK && ptl_ni_is_matching ((*mep)->ni) != is_matching)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    return rc;
}

static int unlink_now (ptl_handle_me_t handle, bool is_matching)
{
    struct ptl_me *me;
    int rc = find (handle, is_matching, &me);

    return rc == PTL_OK ? ptl_leave (NULL, ptl_me_unlink (me)) : rc;
}

static int unlink_later (ptl_handle_me_t handle, bool is_matching,
                         ptl_handle_ct_t trigger, uint64_t threshold)
{
    struct ptl_me *me;
    struct ptl_ct *ct;
    struct ptl_end *end;
    int rc = find (handle, is_matching, &me);

    if (rc != PTL_OK)
        return rc;
    if (ptl_api_find_ct (me->ni, trigger, &ct) != PTL_OK || !ct)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    end = me->ni->end;
    return ptl_leave (end, ptl_me_unlink_later (me, ct, threshold));
}

/* ---- list entries ---- */

static const struct when now = { false, PTL_CT_NONE, 0 };

int PtlLEAppend (ptl_handle_ni_t handle, ptl_pt_index_t index,
                 const ptl_le_t *le, ptl_list_t list, void *user_ptr,
                 ptl_handle_le_t *le_handle)
{
    ptl_me_t me = le ? of_le (le) : (ptl_me_t){ 0 };

    return append (handle, false, index, le ? &me : NULL, list, user_ptr,
                   le_handle, &now);
}

int PtlLEUnlink (ptl_handle_le_t handle)
{
    return unlink_now (handle, false);
}

int PtlLESearch (ptl_handle_ni_t handle, ptl_pt_index_t index,
                 const ptl_le_t *le, ptl_search_op_t operation,
                 void *user_ptr)
{
    ptl_me_t me = le ? of_le (le) : (ptl_me_t){ 0 };

    return search (handle, false, index, le ? &me : NULL, operation, user_ptr);
}

int PtlTriggeredLEAppend (ptl_handle_ni_t handle, ptl_pt_index_t index,
                          const ptl_le_t *le, ptl_list_t list, void *user_ptr,
                          ptl_handle_le_t *le_handle, ptl_handle_ct_t trigger,
                          ptl_size_t threshold)
{
    struct when when = { true, trigger, threshold };
    ptl_me_t me = le ? of_le (le) : (ptl_me_t){ 0 };

    return append (handle, false, index, le ? &me : NULL, list, user_ptr,
                   le_handle, &when);
}

int PtlTriggeredLEUnlink (ptl_handle_le_t handle, ptl_handle_ct_t trigger,
                          ptl_size_t threshold)
{
    return unlink_later (handle, false, trigger, threshold);
}

/* ---- match entries ---- */

int PtlMEAppend (ptl_handle_ni_t handle, ptl_pt_index_t index,
                 const ptl_me_t *me, ptl_list_t list, void *user_ptr,
                 ptl_handle_me_t *me_handle)
{
    return append (handle, true, index, me, list, user_ptr, me_handle, &now);
}

int PtlMEUnlink (ptl_handle_me_t handle)
{
    return unlink_now (handle, true);
}

int PtlMESearch (ptl_handle_ni_t handle, ptl_pt_index_t index,
                 const ptl_me_t *me, ptl_search_op_t operation,
                 void *user_ptr)
{
    return search (handle, true, index, me, operation, user_ptr);
}

int PtlTriggeredMEAppend (ptl_handle_ni_t handle, ptl_pt_index_t index,
                          const ptl_me_t *me, ptl_list_t list, void *user_ptr,
                          ptl_handle_me_t *me_handle, ptl_handle_ct_t trigger,
                          ptl_size_t threshold)
{
    struct when when = { true, trigger, threshold };

    return append (handle, true, index, me, list, user_ptr, me_handle, &when);
}

int PtlTriggeredMEUnlink (ptl_handle_me_t handle, ptl_handle_ct_t trigger,
                          ptl_size_t threshold)
{
    return unlink_later (handle, true, trigger, threshold);
}
