/* order.h - one order to start a program, as it comes in a packet.
 *
 * The layout is in native/wire/STARTER.md. All strings point into the packet.
 */
#ifndef YOD_STARTER_ORDER_H
#define YOD_STARTER_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum order_kind { ORDER_START = 1, ORDER_SIGNAL = 2, ORDER_END = 3 };

enum order_flags {
    ORDER_MAKE_DIRECTORY = 1,
    ORDER_TELL_START = 2,
};

struct order {
    uint32_t kind;
    uint32_t number;                    /* the caller's name for it */
    uint32_t flags;
    uint32_t ranks;                     /* processes of the program */
    uint32_t first_rank;
    int32_t signo;
    uint32_t n_words, n_variables;
    char *directory, *output, *error;
    char **words;                       /* ended by NULL */
    char **variables;                   /* NAME=VALUE, or NAME to unset */
};

/* Read a packet of `size` bytes, followed by a zero byte. False: it breaks a
 * rule. `order` owns `words` and `variables` then, and else nothing. */
bool order_read (struct order *order, char *packet, size_t size);

/* Free what an order owns. */
void order_free (struct order *order);

#endif
