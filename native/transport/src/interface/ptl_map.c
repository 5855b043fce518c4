#include "ptl_map.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int compare (const ptl_process_t *a, uint32_t nid, uint32_t pid)
{
    if (a->phys.nid != nid)
        return a->phys.nid < nid ? -1 : 1;
    return a->phys.pid < pid ? -1 : a->phys.pid > pid;
}

static int by_id (const void *a, const void *b, void *context)
{
    const ptl_process_t *processes = context;
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    int order
        = compare (&processes[x], processes[y].phys.nid, processes[y].phys.pid);

    return order ? order : (x > y) - (x < y);
}

struct ptl_map *ptl_map_alloc (const ptl_process_t *processes, size_t size)
{
    struct ptl_map *map;

    if (size > (SIZE_MAX - sizeof (*map)) / sizeof (*processes))
        return NULL;
    if (!(map = malloc (sizeof (*map) + size * sizeof (*processes))))
        return NULL;
    if (!(map->by_id = malloc ((size ? size : 1) * sizeof (*map->by_id)))) {
        free (map);
        return NULL;
    }
    map->size = size;
    if (size > 0)
        memcpy (map->processes, processes, size * sizeof (*processes));
    for (size_t i = 0; i < size; i++)
        map->by_id[i] = i;
    qsort_r (map->by_id, size, sizeof (*map->by_id), by_id, map->processes);
    return map;
}

ptl_rank_t ptl_map_rank (const struct ptl_map *map, uint32_t nid, uint32_t pid)
{
    size_t low = 0, high = map ? map->size : 0, middle;

    while (low < high) {
        middle = low + (high - low) / 2;
        if (compare (&map->processes[map->by_id[middle]], nid, pid) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (!map || low == map->size
        || compare (&map->processes[map->by_id[low]], nid, pid) != 0)
        return PTL_RANK_ANY;
    return (ptl_rank_t)map->by_id[low];
}

void ptl_map_free (struct ptl_map *map)
{
    if (!map)
        return;
    free (map->by_id);
    free (map);
}
