/* pmi_nodes.h - which ranks share a node, by PMI_process_mapping.
 *
 * The mapping is "(vector,(first,nodes,ranks),...)": each block puts `ranks`
 * consecutive ranks on each of `nodes` consecutive nodes. The vector repeats
 * until every rank has a node.
 */
#ifndef PMI_NODES_H
#define PMI_NODES_H

/* The ranks of `rank`'s node, ascending.
 *
 * ranks  room for `length`, or NULL to count only
 *
 * How many they are; 0: this is no mapping of `size` ranks. */
int pmi_nodes_clique (const char *mapping, int size, int rank, int *ranks,
                      int length);

#endif
