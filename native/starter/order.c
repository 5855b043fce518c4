/* order.c - reads an order. */
#include "order.h"

#include <stdlib.h>
#include <string.h>

#define HEAD_WORDS 8                    /* u32 before the strings */
#define PATHS 3                         /* directory, output, error */

/* The next of the strings, or NULL behind the last one. */
static char *next (char **at, const char *end)
{
    char *string = *at;

    if (string >= end)
        return NULL;
    *at = string + strlen (string) + 1;
    return string;
}

static bool read_list (char **list, uint32_t n, char **at, const char *end)
{
    for (uint32_t i = 0; i < n; i++)
        if (!(list[i] = next (at, end)))
            return false;
    list[n] = NULL;
    return true;
}

bool order_read (struct order *order, char *packet, size_t size)
{
    uint32_t head[HEAD_WORDS];
    char *at = packet + sizeof (head), *end = packet + size;

    memset (order, 0, sizeof (*order));
    if (size < sizeof (head))
        return false;
    memcpy (head, packet, sizeof (head));
    order->kind = head[0];
    order->number = head[1];
    order->flags = head[2];
    order->ranks = head[3];
    order->first_rank = head[4];
    order->signo = (int32_t) head[5];
    order->n_words = head[6];
    order->n_variables = head[7];
    if (order->kind != ORDER_START)
        return size == sizeof (head);
    if (order->ranks < 1 || order->n_words < 1 || end[-1] != 0
        || (size_t) order->n_words + order->n_variables + PATHS > size)
        return false;
    order->directory = next (&at, end);
    order->output = next (&at, end);
    order->error = next (&at, end);
    order->words = calloc ((size_t) order->n_words + 1, sizeof (char *));
    order->variables = calloc ((size_t) order->n_variables + 1,
                               sizeof (char *));
    if (order->error && order->words && order->variables
        && read_list (order->words, order->n_words, &at, end)
        && read_list (order->variables, order->n_variables, &at, end)
        && at == end)
        return true;
    order_free (order);
    return false;
}

void order_free (struct order *order)
{
    free (order->words);
    free (order->variables);
    order->words = order->variables = NULL;
}
