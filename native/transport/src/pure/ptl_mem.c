#include "ptl_mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

static int copy_vector (struct ptl_mem *mem, const ptl_iovec_t *iov, size_t n)
{
    mem->iov = calloc (n ? n : 1, sizeof (*mem->iov));
    mem->from = calloc (n ? n : 1, sizeof (*mem->from));
    if (!mem->iov || !mem->from) {
        ptl_mem_free (mem);
        return PTL_NO_SPACE;
    }
    mem->n = n;
    for (size_t i = 0; i < n; i++) {
        if ((!iov[i].iov_base && iov[i].iov_len > 0)
            || iov[i].iov_len > UINT64_MAX - mem->length) {
            ptl_mem_free (mem);
            return PTL_ARG_INVALID;
        }
        mem->iov[i] = iov[i];
        mem->from[i] = mem->length;
        mem->length += iov[i].iov_len;
    }
    return PTL_OK;
}

int ptl_mem_init (struct ptl_mem *mem, void *start, uint64_t length,
                  unsigned options, int max_iovecs)
{
    memset (mem, 0, sizeof (*mem));
    if (!start && length > 0
        && (length < PTL_MEM_WHOLE || (options & PTL_IOVEC)))
        return PTL_ARG_INVALID;
    if (!(options & PTL_IOVEC)) {
        mem->start = start;
        mem->length = length;
        return PTL_OK;
    }
    if (length > (uint64_t)max_iovecs)
        return PTL_ARG_INVALID;
    return copy_vector (mem, start, length);
}

void ptl_mem_free (struct ptl_mem *mem)
{
    free (mem->iov);
    free (mem->from);
    memset (mem, 0, sizeof (*mem));
}

/* The last piece that begins at or before `offset`. */
static size_t piece_of (const struct ptl_mem *mem, uint64_t offset)
{
    size_t low = 0, high = mem->n, middle;

    while (high - low > 1) {
        middle = low + (high - low) / 2;
        if (mem->from[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Memory in one piece may begin at NULL; adding to a null pointer is undefined
 * in C. */
static uint8_t *at (const struct ptl_mem *mem, uint64_t offset)
{
    return (uint8_t *)((uintptr_t)mem->start + (uintptr_t)offset);
}

uint8_t *ptl_mem_span (const struct ptl_mem *mem, uint64_t offset,
                       uint64_t *room)
{
    size_t i;

    *room = 0;
    if (offset >= mem->length)
        return NULL;
    if (!mem->iov) {
        *room = mem->length - offset;
        return at (mem, offset);
    }
    i = piece_of (mem, offset);
    *room = mem->iov[i].iov_len - (offset - mem->from[i]);
    return (uint8_t *)mem->iov[i].iov_base + (offset - mem->from[i]);
}

void *ptl_mem_at (const struct ptl_mem *mem, uint64_t offset)
{
    uint64_t room;

    if (mem->iov)
        return ptl_mem_span (mem, offset, &room);
    return mem->start || mem->length ? at (mem, offset) : NULL;
}

/* The pages that hold these bytes. False: they wrap around. */
static bool pages_of (const void *start, uint64_t length, void **first,
                      size_t *bytes)
{
    uintptr_t page = (uintptr_t)sysconf (_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)start & ~(page - 1), last;

    if (__builtin_add_overflow ((uintptr_t)start, length - 1, &last))
        return false;
    *first = (void *)begin;
    *bytes = (last | (page - 1)) - begin + 1;
    return true;
}

/* Make the pages present; what is in them stays. */
static bool populate (const void *start, uint64_t length, bool writes)
{
    void *first;
    size_t bytes;
    int rc;

    if (!pages_of (start, length, &first, &bytes))
        return false;
    do
        rc = madvise (first, bytes,
                      writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    while (rc < 0 && (errno == EINTR || errno == EAGAIN));
    return rc == 0; /* of read-only memory: EINVAL */
}

/* Is something mapped at every page? On Linux MS_ASYNC checks just that. */
static bool is_mapped (const void *start, uint64_t length)
{
    void *first;
    size_t bytes;

    return pages_of (start, length, &first, &bytes)
        && msync (first, bytes, MS_ASYNC) == 0;
}

bool ptl_mem_can_tell (void)
{
    char here = 0;

    return populate (&here, 1, true);
}

bool ptl_mem_is_accessible (const struct ptl_mem *mem, uint64_t offset,
                            uint64_t length, bool writes)
{
    uint64_t room;

    while (length > 0) {
        const uint8_t *at = ptl_mem_span (mem, offset, &room);

        room = room < length ? room : length;
        if (!populate (at, room, writes))
            return false;
        offset += room;
        length -= room;
    }
    return true;
}

bool ptl_mem_is_mapped (const struct ptl_mem *mem, uint64_t offset,
                        uint64_t length)
{
    uint64_t room;

    while (length > 0) {
        const uint8_t *at = ptl_mem_span (mem, offset, &room);

        room = room < length ? room : length;
        if (!is_mapped (at, room))
            return false;
        offset += room;
        length -= room;
    }
    return true;
}

void ptl_mem_read (const struct ptl_mem *mem, uint64_t offset, void *to,
                   uint64_t length)
{
    uint8_t *out = to;
    uint64_t room;

    while (length > 0) {
        const uint8_t *from = ptl_mem_span (mem, offset, &room);

        room = room < length ? room : length;
        memcpy (out, from, room);
        out += room;
        offset += room;
        length -= room;
    }
}

void ptl_mem_write (const struct ptl_mem *mem, uint64_t offset,
                    const void *from, uint64_t length)
{
    const uint8_t *in = from;
    uint64_t room;

    while (length > 0) {
        uint8_t *to = ptl_mem_span (mem, offset, &room);

        room = room < length ? room : length;
        memcpy (to, in, room);
        in += room;
        offset += room;
        length -= room;
    }
}
