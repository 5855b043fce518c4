#include "ptl_unproven.h"

#include <stdlib.h>

#include "ptl_end.h"
#include "ptl_shake.h"

struct ptl_origin {
    struct ptl_node node; /* in end->origins */
    struct ptl_node places;
    uint64_t name; /* ptl_origin_of */
    size_t n;
};

static struct ptl_origin *find (const struct ptl_end *end, uint64_t name)
{
    for (struct ptl_node *n = end->origins.next; n != &end->origins;
         n = n->next) {
        struct ptl_origin *origin = ptl_entry (n, struct ptl_origin, node);

        if (origin->name == name)
            return origin;
    }
    return NULL;
}

/* The origin that has most places; NULL: none has any. */
static struct ptl_origin *largest (const struct ptl_end *end)
{
    struct ptl_origin *found = NULL;

    for (struct ptl_node *n = end->origins.next; n != &end->origins;
         n = n->next) {
        struct ptl_origin *origin = ptl_entry (n, struct ptl_origin, node);

        if (!found || origin->n > found->n)
            found = origin;
    }
    return found;
}

static void end_oldest (struct ptl_origin *origin)
{
    struct ptl_place *oldest
        = ptl_entry (origin->places.next, struct ptl_place, node);

    ptl_shake_refuse (oldest->conn, PTL_CODE_SHARE); /* gives its place back */
}

enum ptl_code ptl_unproven_make_room (struct ptl_end *end, uint64_t name)
{
    struct ptl_origin *own = find (end, name), *most;
    size_t n = own ? own->n : 0;

    if (n >= end->config.max_unproven_each) {
        end_oldest (own);
        return PTL_CODE_READY;
    }
    if (end->n_unproven < end->config.max_unproven)
        return PTL_CODE_READY;
    most = largest (end);
    if (most->n > n + 1) /* it has as many as the other one then */
        end_oldest (most);
    else if (own)
        end_oldest (own);
    else
        return PTL_CODE_FULL;
    return PTL_CODE_READY;
}

bool ptl_unproven_enter (struct ptl_end *end, uint64_t name,
                         struct ptl_place *place)
{
    struct ptl_origin *origin = find (end, name);

    if (!origin) {
        if (!(origin = calloc (1, sizeof (*origin))))
            return false;
        origin->name = name;
        ptl_list_init (&origin->places);
        ptl_list_append (&end->origins, &origin->node);
    }
    place->origin = origin;
    ptl_list_append (&origin->places, &place->node);
    origin->n++;
    end->n_unproven++;
    return true;
}

void ptl_unproven_leave (struct ptl_end *end, struct ptl_place *place)
{
    struct ptl_origin *origin = place->origin;

    if (!origin)
        return;
    place->origin = NULL;
    ptl_list_remove (&place->node);
    end->n_unproven--;
    if (--origin->n > 0)
        return;
    ptl_list_remove (&origin->node);
    free (origin);
}
