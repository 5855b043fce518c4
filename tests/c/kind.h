/* kind.h - the kind of interface that a program is for, KIND 0 to 3: the
 * variable KIND says which when it starts, so that it is compiled once.
 *
 * Bit 0 is logical addressing, bit 1 is no matching. entry_t has what entries of
 * both sorts have, and what only match entries have is ignored where there is no
 * matching. Who includes this has portals4.h, and may have chosen KIND itself.
 */
#ifndef KIND_H
#define KIND_H

#ifndef KIND
#include <stdlib.h>

#define KIND kind_chosen

static unsigned kind_chosen;

__attribute__ ((constructor)) static void kind_choose (void)
{
    const char *text = getenv ("KIND");

    kind_chosen = text ? (unsigned)atoi (text) : 0;
}
#endif

#define IS_LOGICAL ((KIND & 1) != 0)
#define IS_MATCHING ((KIND & 2) == 0)
#define NI_OPTIONS                                                      \
    ((IS_LOGICAL ? PTL_NI_LOGICAL : PTL_NI_PHYSICAL)                    \
     | (IS_MATCHING ? PTL_NI_MATCHING : PTL_NI_NO_MATCHING))

typedef ptl_me_t entry_t;

/* The same as a list entry, in memory that ends where it does; NULL stays. */
static inline const ptl_le_t *entry_le (const entry_t *entry, ptl_le_t *le)
{
    if (!entry)
        return NULL;
    *le = (ptl_le_t){ entry->start, entry->length, entry->ct_handle,
                      entry->uid, entry->options };
    return le;
}

static inline int entry_append (ptl_handle_ni_t ni, ptl_pt_index_t index,
                                const entry_t *entry, ptl_list_t list,
                                void *user_ptr, ptl_handle_me_t *handle)
{
    ptl_le_t le;

    return IS_MATCHING
        ? PtlMEAppend (ni, index, entry, list, user_ptr, handle)
        : PtlLEAppend (ni, index, entry_le (entry, &le), list, user_ptr,
                       handle);
}

static inline int entry_unlink (ptl_handle_me_t handle)
{
    return IS_MATCHING ? PtlMEUnlink (handle) : PtlLEUnlink (handle);
}

static inline int entry_search (ptl_handle_ni_t ni, ptl_pt_index_t index,
                                const entry_t *entry,
                                ptl_search_op_t operation, void *user_ptr)
{
    ptl_le_t le;

    return IS_MATCHING
        ? PtlMESearch (ni, index, entry, operation, user_ptr)
        : PtlLESearch (ni, index, entry_le (entry, &le), operation, user_ptr);
}

static inline int
entry_append_triggered (ptl_handle_ni_t ni, ptl_pt_index_t index,
                        const entry_t *entry, ptl_list_t list, void *user_ptr,
                        ptl_handle_me_t *handle, ptl_handle_ct_t trigger,
                        ptl_size_t threshold)
{
    ptl_le_t le;

    return IS_MATCHING
        ? PtlTriggeredMEAppend (ni, index, entry, list, user_ptr, handle,
                                trigger, threshold)
        : PtlTriggeredLEAppend (ni, index, entry_le (entry, &le), list,
                                user_ptr, handle, trigger, threshold);
}

static inline int entry_unlink_triggered (ptl_handle_me_t handle,
                                          ptl_handle_ct_t trigger,
                                          ptl_size_t threshold)
{
    return IS_MATCHING ? PtlTriggeredMEUnlink (handle, trigger, threshold)
                       : PtlTriggeredLEUnlink (handle, trigger, threshold);
}

#endif
