#include "ptl_wake.h"

#include "ptl_conn.h"
#include "ptl_in.h"
#include "ptl_near.h"
#include "ptl_out.h"

#define GLANCE_MOST 64 /* then others have their turn */

/* ---- sleeping ---- */

/* Does somebody sleep in the epoll set, or may do so at any time? */
bool ptl_wake_is_needed (const struct ptl_end *end)
{
    return end->is_watched || end->n_asleep > 0;
}

static bool wants_room (const struct ptl_near *near)
{
    return near->is_out && near->conn->wants_out;
}

/* Ask the other end to wake us. False: there is something to do. */
static bool lie_down (struct ptl_near *near)
{
    near->conn->end->is_lying = true;
    if (near->is_in && !ptl_ring_reader_sleeps (&near->shm.in))
        return false;
    return !wants_room (near) || ptl_ring_writer_sleeps (&near->shm.out);
}

void ptl_wake_arm (struct ptl_near *near)
{
    if (!lie_down (near))
        ptl_shm_wake_self (&near->shm);
}

bool ptl_wake_may_sleep (struct ptl_end *end)
{
    for (struct ptl_node *n = end->nears.next; n != &end->nears; n = n->next)
        if (!lie_down (ptl_entry (n, struct ptl_near, node)))
            return false;
    return true;
}

void ptl_wake_arm_all (struct ptl_end *end)
{
    for (struct ptl_node *n = end->nears.next; n != &end->nears; n = n->next)
        ptl_wake_arm (ptl_entry (n, struct ptl_near, node));
}

static void get_up (struct ptl_end *end)
{
    struct ptl_near *near;

    end->is_lying = false;
    for (struct ptl_node *n = end->nears.next; n != &end->nears; n = n->next) {
        near = ptl_entry (n, struct ptl_near, node);
        ptl_ring_reader_is_up (&near->shm.in);
        ptl_ring_writer_is_up (&near->shm.out);
    }
}

/* ---- looking ---- */

static bool is_due (struct ptl_near *near)
{
    return (near->is_in && ptl_ring_has_bytes (&near->shm.in))
        || (wants_room (near) && ptl_ring_has_room (&near->shm.out));
}

static void serve (struct ptl_near *near)
{
    struct ptl_conn *conn = near->conn;

    if (wants_room (near) && ptl_ring_has_room (&near->shm.out))
        ptl_out_flush (conn);
    if (near->is_in) /* no longer, if it has ended */
        ptl_in_read (conn);
}

void ptl_wake_ready (struct ptl_near *near)
{
    if (near->source.fd < 0)
        return;
    ptl_shm_calm (&near->shm);
    serve (near);
}

static struct ptl_near *find_due (struct ptl_end *end)
{
    struct ptl_near *near;

    for (struct ptl_node *n = end->nears.next; n != &end->nears; n = n->next) {
        near = ptl_entry (n, struct ptl_near, node);
        if (is_due (near))
            return near;
    }
    return NULL;
}

bool ptl_wake_glance (struct ptl_end *end)
{
    struct ptl_near *near = find_due (end);
    bool is_any = near != NULL;

    if (end->is_lying && !ptl_wake_is_needed (end))
        get_up (end);
    /* A connection goes to the end of the list when it has been served. */
    for (int i = 0; near && i < GLANCE_MOST && end->budget_frames > 0
                    && end->budget_bytes > 0; i++) {
        ptl_list_remove (&near->node);
        ptl_list_append (&end->nears, &near->node);
        serve (near);
        near = find_due (end);
    }
    return is_any;
}
