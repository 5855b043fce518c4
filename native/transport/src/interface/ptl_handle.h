/* ptl_handle.h - handles: what programs name objects by.
 *
 * A handle is a kind and a number that counts the objects of that kind ever
 * made, so it is the same in every process that makes the same calls, whatever
 * the network did meanwhile, and a stale one never names another object.
 * One table for the process; callers hold its lock.
 */
#ifndef PTL_HANDLE_H
#define PTL_HANDLE_H

#include <stdint.h>

enum ptl_kind {
    PTL_HANDLE_NI = 1,
    PTL_HANDLE_EQ,
    PTL_HANDLE_CT,
    PTL_HANDLE_MD,
    PTL_HANDLE_ME, /* list entries, too */
    PTL_HANDLE_KINDS
};

/* Give an object a handle. PTL_OK, PTL_NO_SPACE. */
int ptl_handle_add (enum ptl_kind kind, void *object, uint32_t *handle);

/* PTL_OK, PTL_ARG_INVALID (stale, none, or of another kind). */
int ptl_handle_find (uint32_t handle, enum ptl_kind kind, void *objectp);

/* Its kind, 0: not valid. */
enum ptl_kind ptl_handle_kind (uint32_t handle);

/* Make a handle invalid (0: there is none). */
void ptl_handle_forget (uint32_t handle);

/* Free the table, which is empty: the library has ended. The counts stay. */
void ptl_handle_free_all (void);

#endif
