/* ptl_share.h - what each user has of an end: proven connections, and bytes of
 * messages that wait for them to be read.
 *
 * Daemons of the partition and root have no share: they are not strangers. A
 * share exists while there is something in it.
 */
#ifndef PTL_SHARE_H
#define PTL_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "ptl_list.h"

#define PTL_SHARE_LISTS 64

struct ptl_end;
struct ptl_who;

struct ptl_share {
    struct ptl_node node; /* in end->shares */
    uint32_t uid;
    uint32_t n_connections, n_messages;
    uint64_t bytes; /* of the messages */
};

/* Does this principal have a share? */
bool ptl_share_is_for (const struct ptl_who *who);

/* The share of a user; NULL: there is none. */
struct ptl_share *ptl_share_find (struct ptl_end *end, uint32_t uid);

/* One more connection of a user. NULL: there are as many as config lets, or
 * there is no memory. */
struct ptl_share *ptl_share_enter (struct ptl_end *end, uint32_t uid);

/* A connection has ended. */
void ptl_share_leave (struct ptl_share *share);

/* A message is sent. False: more waits than config lets, it may not be. */
bool ptl_share_hold (const struct ptl_end *end, struct ptl_share *share,
                     uint64_t bytes);

/* It has been read, or never will be. */
void ptl_share_give_back (struct ptl_share *share, uint64_t bytes);

/* The end ends. */
void ptl_share_free_all (struct ptl_end *end);

#endif
