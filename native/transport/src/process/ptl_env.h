/* ptl_env.h - the PTL_* variables of a program, read and checked in one place.
 *
 * docs/PORTALS.md says what each means. A value that makes no sense is one line
 * on standard error: the variable, its value, what it may be.
 */
#ifndef PTL_ENV_H
#define PTL_ENV_H

#include <stdbool.h>
#include <stdint.h>

#include "portals4_ext.h"

struct ptl_env {
    bool is_local;  /* PTL_TRANSPORT: not by TCP alone */
    bool no_memory; /* it is unix */
    bool is_sealed; /* PTL_INTEGRITY */
    bool has_thread; /* PTL_PROGRESS */
    bool tells_losses; /* PTL_DEBUG */
    int64_t spin_ns; /* PTL_SPIN_US */
};

/* The settings of every process, as read last; a value that makes no sense
 * counts as the default. The lock is held. */
const struct ptl_env *ptl_env (void);

/* Read it anew. False: a value makes no sense; errno is EINVAL. */
bool ptl_env_read (void);

/* PTL_LISTEN, in host order; *nid stays as it is where it is not set. False:
 * it is no address to listen at; errno is EINVAL. */
bool ptl_env_listen (uint32_t *nid);

/* PTL_KEY_FILE; *is_set says whether there is one. False: it is no key; errno
 * says why. */
bool ptl_env_key (uint8_t key[PTLX_KEY_BYTES], bool *is_set);

/* Tell that a variable has a wrong value, and why. Sets errno to EINVAL. */
void ptl_env_refuse (const char *name, const char *why);

#endif
