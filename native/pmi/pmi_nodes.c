#include "pmi_nodes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "pmi_line.h"

#define COUNT_MAX 99999999

struct block {
    int first, nodes, ranks;
};

/* Parse one number and the byte behind it. */
static bool take (const char **at, char behind, long min, int *value)
{
    size_t length = strspn (*at, "0123456789");

    if (!pmi_number (*at, length, min, COUNT_MAX, value)
        || (*at)[length] != behind)
        return false;
    *at += length + 1;
    return true;
}

static bool take_block (const char **at, struct block *block)
{
    if (strncmp (*at, ",(", 2) != 0)
        return false;
    *at += 2;
    return take (at, ',', 0, &block->first) && take (at, ',', 1, &block->nodes)
           && take (at, ')', 1, &block->ranks);
}

static const char *start (const char *mapping)
{
    static const char vector[] = "(vector";

    return strncmp (mapping, vector, sizeof (vector) - 1) == 0
               ? mapping + sizeof (vector) - 1
               : NULL;
}

/* Go to the next block; after the last comes the first. */
static bool next_block (const char *mapping, const char **at,
                        struct block *block)
{
    if (!*at || strcmp (*at, ")") == 0)
        *at = start (mapping);
    return *at && take_block (at, block);
}

/* The node of a rank; -1: no mapping. */
static int node_of (const char *mapping, int size, int rank)
{
    const char *at = NULL;
    struct block block;

    for (int64_t first = 0; first < size;) {
        if (!next_block (mapping, &at, &block))
            return -1;
        if (rank < first + (int64_t)block.nodes * block.ranks)
            return block.first + (int)((rank - first) / block.ranks);
        first += (int64_t)block.nodes * block.ranks;
    }
    return -1;
}

int pmi_nodes_clique (const char *mapping, int size, int rank, int *ranks,
                      int length)
{
    int node = node_of (mapping, size, rank), count = 0;
    const char *at = NULL;
    struct block block;

    if (node < 0)
        return 0;
    for (int64_t first = 0; first < size;) {
        if (!next_block (mapping, &at, &block))
            return 0;
        if (node >= block.first && node - block.first < block.nodes) {
            int64_t own = first + (int64_t)(node - block.first) * block.ranks;

            for (int i = 0; i < block.ranks && own + i < size; i++, count++)
                if (ranks && count < length)
                    ranks[count] = (int)(own + i);
        }
        first += (int64_t)block.nodes * block.ranks;
    }
    return count;
}
