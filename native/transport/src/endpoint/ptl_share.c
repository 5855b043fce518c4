#include "ptl_share.h"

#include <stdlib.h>

#include "ptl_arrival.h"
#include "ptl_end.h"

bool ptl_share_is_for (const struct ptl_who *who)
{
    return (who->kind == PTLX_KEY_USER || who->kind == PTLX_KEY_JOB)
        && who->uid != 0;
}

static struct ptl_node *list_of (struct ptl_end *end, uint32_t uid)
{
    return &end->shares[uid % PTL_SHARE_LISTS];
}

struct ptl_share *ptl_share_find (struct ptl_end *end, uint32_t uid)
{
    struct ptl_node *list = list_of (end, uid);

    for (struct ptl_node *n = list->next; n != list; n = n->next) {
        struct ptl_share *share = ptl_entry (n, struct ptl_share, node);

        if (share->uid == uid)
            return share;
    }
    return NULL;
}

struct ptl_share *ptl_share_enter (struct ptl_end *end, uint32_t uid)
{
    struct ptl_share *share = ptl_share_find (end, uid);
    uint32_t most = end->config.max_connections_each;

    if (share && most > 0 && share->n_connections >= most)
        return NULL;
    if (!share) {
        if (!(share = calloc (1, sizeof (*share))))
            return NULL;
        share->uid = uid;
        ptl_list_append (list_of (end, uid), &share->node);
    }
    share->n_connections++;
    return share;
}

static void drop_empty (struct ptl_share *share)
{
    if (share->n_connections > 0 || share->n_messages > 0)
        return;
    ptl_list_remove (&share->node);
    free (share);
}

void ptl_share_leave (struct ptl_share *share)
{
    share->n_connections--;
    drop_empty (share);
}

bool ptl_share_hold (const struct ptl_end *end, struct ptl_share *share,
                     uint64_t bytes)
{
    uint64_t most = end->config.max_unread_each;

    if (most > 0 && bytes > most - (share->bytes < most ? share->bytes : most))
        return false;
    share->bytes += bytes;
    share->n_messages++;
    return true;
}

void ptl_share_give_back (struct ptl_share *share, uint64_t bytes)
{
    share->bytes -= bytes;
    share->n_messages--;
    drop_empty (share);
}

void ptl_share_free_all (struct ptl_end *end)
{
    for (int i = 0; i < PTL_SHARE_LISTS; i++)
        while (end->shares[i].next != &end->shares[i]) {
            struct ptl_share *share = ptl_entry (end->shares[i].next,
                                                 struct ptl_share, node);

            ptl_list_remove (&share->node);
            free (share);
        }
}
