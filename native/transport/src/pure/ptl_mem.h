/* ptl_mem.h - a user's memory: one piece, or an I/O vector seen as one.
 *
 * The vector is copied when the memory is described, so that the user may not
 * change it under us. Offsets count from the first byte of the first piece.
 */
#ifndef PTL_MEM_H
#define PTL_MEM_H

#include <stdbool.h>

#include "portals4.h"

struct ptl_mem {
    uint8_t *start;  /* one piece, or NULL */
    uint64_t length; /* of all pieces */
    ptl_iovec_t *iov; /* own copy, or NULL */
    uint64_t *from;   /* offset at which each piece begins */
    size_t n;         /* pieces */
};

/* Memory of at least this length may begin at NULL: such a program describes
 * its whole address space once, and uses addresses as offsets. */
#define PTL_MEM_WHOLE (UINT64_C (1) << 32)

/* Describe `start` and `length` as a descriptor or an entry has them;
 * PTL_IOVEC in `options` makes them a vector of at most max_iovecs pieces.
 *   PTL_OK, PTL_ARG_INVALID (null memory, too many pieces), PTL_NO_SPACE
 */
int ptl_mem_init (struct ptl_mem *mem, void *start, uint64_t length,
                  unsigned options, int max_iovecs);

void ptl_mem_free (struct ptl_mem *mem);

/* The bytes at `offset`, and how many follow in one piece (0: none). */
uint8_t *ptl_mem_span (const struct ptl_mem *mem, uint64_t offset,
                       uint64_t *room);

/* The start address that the event of an operation at `offset` tells. */
void *ptl_mem_at (const struct ptl_mem *mem, uint64_t offset);

/* Can this system tell whether memory is accessible? */
bool ptl_mem_can_tell (void);

/* Is it accessible, for reading or also for writing? Costs a system call, after
 * which its pages are present. */
bool ptl_mem_is_accessible (const struct ptl_mem *mem, uint64_t offset,
                            uint64_t length, bool writes);

/* Is it mapped at all, with any protection? One system call for each piece;
 * touches no page. */
bool ptl_mem_is_mapped (const struct ptl_mem *mem, uint64_t offset,
                        uint64_t length);

/* Copy out of, or into, the memory; the bytes must be within it. */
void ptl_mem_read (const struct ptl_mem *mem, uint64_t offset, void *to,
                   uint64_t length);
void ptl_mem_write (const struct ptl_mem *mem, uint64_t offset,
                    const void *from, uint64_t length);

#endif
