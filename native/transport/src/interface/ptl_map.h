/* ptl_map.h - which process has which rank, both ways. */
#ifndef PTL_MAP_H
#define PTL_MAP_H

#include <stddef.h>

#include "portals4.h"

struct ptl_map {
    size_t size;
    size_t *by_id;            /* ranks, in the order of their ids */
    ptl_process_t processes[]; /* by rank */
};

/* A copy of `processes`. NULL: no memory. */
struct ptl_map *ptl_map_alloc (const ptl_process_t *processes, size_t size);

/* The lowest rank of a process; PTL_RANK_ANY: it has none (or no map). */
ptl_rank_t ptl_map_rank (const struct ptl_map *map, uint32_t nid,
                         uint32_t pid);

void ptl_map_free (struct ptl_map *map); /* NULL is nothing */

#endif
