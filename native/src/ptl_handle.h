/* ptl_handle.h - the process object: init count and the table of handles.
 *
 * The only mutable state outside an interface. A handle is a kind, a slot and
 * a generation, so a stale one is refused instead of reaching another object.
 * In a forked child the table answers PTL_NO_INIT.
 */
#ifndef PTL_HANDLE_H
#define PTL_HANDLE_H

#include <stdint.h>

enum ptl_kind {
    PTL_HANDLE_NI = 1,
    PTL_HANDLE_EQ,
    PTL_HANDLE_CT,
    PTL_HANDLE_MD,
    PTL_HANDLE_ME
};

struct ptl_ni;

/* Count a user of the library. PTL_OK, PTL_FAIL. */
int ptl_handle_init (void);

/* One user less; true for the last one, who frees the interfaces. */
int ptl_handle_fini (void);

/* Give an object a handle. PTL_OK, PTL_NO_INIT, PTL_NO_SPACE. */
int ptl_handle_add (enum ptl_kind kind, void *object, uint32_t *handle);

/* PTL_OK, PTL_NO_INIT, PTL_ARG_INVALID (stale, or another kind). */
int ptl_handle_find (uint32_t handle, enum ptl_kind kind, void *objectp);

/* Any interface that is left, NULL: none. */
struct ptl_ni *ptl_handle_any_ni (void);

#endif
