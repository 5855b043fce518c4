/* ptl_atomic.h - the arithmetic of atomic operations at the target.
 *
 * Pure: which operation goes with which type and call, and what becomes of the
 * target's bytes. Elements are in the host's own format, one for both ends.
 *
 * Atomic means: among the operations of one interface, whose lock the caller
 * holds. Against a plain load or store of the application it is not, so that
 * the interface does not have PTL_COHERENT_ATOMICS.
 *
 *   operation                   integer  real  complex  call
 *   MIN MAX                        x      x             Atomic, FetchAtomic
 *   SUM PROD                       x      x       x     Atomic, FetchAtomic
 *   LOR LAND LXOR                  x                    Atomic, FetchAtomic
 *   BOR BAND BXOR                  x                    Atomic, FetchAtomic
 *   SWAP                           x      x       x     Swap
 *   CSWAP CSWAP_NE         one     x      x       x     Swap, operand
 *   CSWAP_LE _LT _GE _GT   one     x      x             Swap, operand
 *   MSWAP                  one     x                    Swap, operand
 *
 * "one": the length is that of one element; else any number of them.
 *
 *   Integers wrap. Logical operations give 0 or 1.
 *   MIN, MAX: a NaN on either side is the result, in whatever order they come;
 *     of equal values (0.0 and -0.0) the target's stays.
 *   Complex products are those of C, infinities included (C11 annex G).
 *   CSWAP...: data replaces the target where `operand <relation> target`; with
 *     a NaN only NE holds. Comparisons are by value: 0.0 equals -0.0, padding
 *     is not looked at, complex numbers are equal when both parts are.
 *   MSWAP: the bits of data that are 1 in the operand replace the target's.
 *   Swaps copy every bit of an element, padding and the payload of a NaN too.
 */
#ifndef PTL_ATOMIC_H
#define PTL_ATOMIC_H

#include <stdbool.h>
#include <stddef.h>

#include "portals4.h"

#define PTL_ATOMIC_ELEMENT_MAX sizeof (long double _Complex)

enum ptl_atomic_call {
    PTL_CALL_ATOMIC,
    PTL_CALL_FETCH_ATOMIC,
    PTL_CALL_SWAP
};

/* Operations and types may be any number: they come from peers. */

/* Bytes of one element; 0: there is no such type. */
size_t ptl_atomic_size (unsigned type);

bool ptl_atomic_allows (enum ptl_atomic_call call, unsigned op, unsigned type);

/* Whether a length may be asked for: whole elements, one where an operand is
 * needed. 0 bytes are whole elements. */
bool ptl_atomic_fits (unsigned op, unsigned type, uint64_t bytes);

/* Whether the operation takes an operand, of one element. */
bool ptl_atomic_needs_operand (unsigned op);

/* Replaces target by the result. What `allows` or `fits` refuses changes
 * nothing.
 *
 * Pieces hold whole elements: an element that an I/O vector cuts is gathered
 * before and scattered after by the caller, who also keeps the old value for
 * a reply. Target, operand and data have any alignment and do not overlap. The
 * operand is not read where none is needed. */
void ptl_atomic_apply (unsigned op, unsigned type, void *target,
                       const void *operand, const void *data, size_t bytes);

#endif
