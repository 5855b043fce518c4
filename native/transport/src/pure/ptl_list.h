/* ptl_list.h - intrusive doubly linked lists.
 *
 * A node is in at most one list; a node that is in none points to itself, so
 * removing twice is harmless.
 */
#ifndef PTL_LIST_H
#define PTL_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct ptl_node {
    struct ptl_node *prev, *next;
};

#define ptl_entry(node, type, member)                                   \
    ((type *)(void *)((char *)(node) - offsetof (type, member)))

static inline void ptl_list_init (struct ptl_node *list)
{
    list->prev = list->next = list;
}

static inline bool ptl_list_empty (const struct ptl_node *list)
{
    return list->next == list;
}

/* Put `node` before `place`; before the head is the end of the list. */
static inline void ptl_list_insert (struct ptl_node *place,
                                    struct ptl_node *node)
{
    node->next = place;
    node->prev = place->prev;
    place->prev->next = node;
    place->prev = node;
}

static inline void ptl_list_append (struct ptl_node *list,
                                    struct ptl_node *node)
{
    ptl_list_insert (list, node);
}

static inline void ptl_list_remove (struct ptl_node *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    ptl_list_init (node);
}

/* First node, taken out; NULL when the list is empty. */
static inline struct ptl_node *ptl_list_pop (struct ptl_node *list)
{
    struct ptl_node *node = list->next;

    if (node == list)
        return NULL;
    ptl_list_remove (node);
    return node;
}

/* Move all of `from` to the front of `to`, in order. */
static inline void ptl_list_splice (struct ptl_node *to,
                                    struct ptl_node *from)
{
    if (ptl_list_empty (from))
        return;
    from->next->prev = to;
    from->prev->next = to->next;
    to->next->prev = from->prev;
    to->next = from->next;
    ptl_list_init (from);
}

#endif
