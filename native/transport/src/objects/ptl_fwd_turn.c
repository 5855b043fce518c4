#include "ptl_fwd_turn.h"

#include <stdlib.h>

#include "ptl_end.h"
#include "ptl_fwd_parts.h"

#define RELAY_PUTS_MAX 4096u /* of a job, alive: about a mebibyte */

static struct ptl_fwd_turns *find (struct ptl_end *end, uint64_t job_id)
{
    struct ptl_fwd_turns *turns;

    for (struct ptl_node *n = end->turns.next; n != &end->turns; n = n->next) {
        turns = ptl_entry (n, struct ptl_fwd_turns, node);
        if (turns->job_id == job_id)
            return turns;
    }
    return NULL;
}

static struct ptl_fwd_turns *make (struct ptl_end *end, uint64_t job_id)
{
    struct ptl_fwd_turns *turns = calloc (1, sizeof (*turns));

    if (!turns)
        return NULL;
    turns->job_id = job_id;
    ptl_list_init (&turns->sources);
    ptl_list_init (&turns->relays);
    ptl_list_append (&end->turns, &turns->node);
    return turns;
}

/* Run the object that waits longest; it stays in the list until it has its
 * turn. */
static void wake (const struct ptl_node *list)
{
    if (!ptl_list_empty (list))
        ptl_fwd_do_later (ptl_entry (list->next, struct ptl_fwd, turn));
}

static bool wait_in (struct ptl_node *list, struct ptl_fwd *fwd)
{
    if (ptl_list_empty (&fwd->turn))
        ptl_list_append (list, &fwd->turn);
    return false;
}

int ptl_fwd_turns_join (struct ptl_fwd *fwd)
{
    uint64_t job_id = fwd->object.job_id;

    fwd->turns = find (fwd->end, job_id);
    if (!fwd->turns && !(fwd->turns = make (fwd->end, job_id)))
        return PTL_NO_SPACE;
    fwd->turns->n_objects++;
    return PTL_OK;
}

void ptl_fwd_turn_forgo (struct ptl_fwd *fwd)
{
    ptl_list_remove (&fwd->turn);
    if (!fwd->turns)
        return;
    wake (&fwd->turns->sources);
    wake (&fwd->turns->relays);
}

void ptl_fwd_turns_leave (struct ptl_fwd *fwd)
{
    struct ptl_fwd_turns *turns = fwd->turns;

    if (!turns)
        return;
    ptl_fwd_puts_ended (fwd, fwd->n_ops);
    turns->buffered -= fwd->buffered;
    ptl_fwd_turn_forgo (fwd);
    if (--turns->n_objects > 0)
        return;
    ptl_list_remove (&turns->node);
    free (turns);
}

bool ptl_fwd_turn_to_read (struct ptl_fwd *fwd, uint64_t bytes)
{
    struct ptl_fwd_turns *turns = fwd->turns;
    const struct ptl_node *first = turns->sources.next;
    bool is_next = first == &turns->sources || first == &fwd->turn;
    uint64_t most = fwd->end->config.sending_bytes;

    if (!is_next || (turns->buffered > 0 && turns->buffered + bytes > most))
        return wait_in (&turns->sources, fwd);
    ptl_list_remove (&fwd->turn);
    turns->buffered += fwd->buffered = bytes;
    wake (&turns->sources); /* there may be room for another */
    return true;
}

bool ptl_fwd_turn_to_pass_on (struct ptl_fwd *fwd)
{
    struct ptl_fwd_turns *turns = fwd->turns;

    if (turns->n_puts >= RELAY_PUTS_MAX)
        return wait_in (&turns->relays, fwd);
    ptl_list_remove (&fwd->turn);
    wake (&turns->relays); /* there may be room for another */
    return true;
}

void ptl_fwd_put_made (struct ptl_fwd *fwd)
{
    fwd->n_ops++;
    if (!fwd->object.is_source)
        fwd->turns->n_puts++;
}

void ptl_fwd_puts_ended (struct ptl_fwd *fwd, unsigned n)
{
    fwd->n_ops -= n;
    if (fwd->object.is_source || n == 0)
        return;
    fwd->turns->n_puts -= n;
    wake (&fwd->turns->relays);
}
