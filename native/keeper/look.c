#include "look.h"

#include <string.h>

#include "clock.h"
#include "descend.h"
#include "launched.h"
#include "mapped.h"

#define LOOK_FIRST_MS 5
#define LOOK_LAST_MS (5 << 22)          /* six hours */
#define LOOK_MAX_PROCESSES 64           /* below a rank, at one look */

void look_begin (struct keeper *k)
{
    k->go_ms = clock_ms ();
    /* A look at a program that yod has would wait for yod. */
    k->look_ms = k->spec->remote.count > 0 ? 0 : LOOK_FIRST_MS;
}

/* Look for the MPI library of a rank's process, or of one that it started. The
 * environment is read after the maps: a process that has mapped a library has
 * begun its program, so both belong to the same program. */
static bool look_at (struct keeper *k, size_t index, pid_t unix_pid)
{
    const struct rank *rank = &k->ranks[index];
    char text[CLAIM_BYTES];

    if (!mapped_find (unix_pid, text)
        || !launched_by_us (unix_pid, k->spec, &k->spec->ranks[index],
                            rank->pmi_fd))
        return false;
    memcpy (k->seen, text, sizeof (text));
    k->seen_index = index;
    k->look_ms = 0;
    return true;
}

/* The hold library tells the MPI library of a preloaded rank's first
 * program. */
static bool look_at_rank (struct keeper *k, size_t index)
{
    const struct rank *rank = &k->ranks[index];

    return (rank->how != HELD_PRELOAD
            || !mapped_is_program (rank->unix_pid,
                                   k->spec->ranks[index].program->path))
           && look_at (k, index, rank->unix_pid);
}

static void look_below (struct keeper *k, size_t index)
{
    pid_t below[LOOK_MAX_PROCESSES];
    size_t count = descend_list (k->ranks[index].unix_pid, below,
                                 LOOK_MAX_PROCESSES);

    for (size_t i = 0; i < count; i++)
        if (look_at (k, index, below[i]))
            return;
}

/* Look at the first living rank: the others mostly run the same program. */
static void look (struct keeper *k)
{
    for (size_t i = 0; i < k->n_begun; i++)
        if (k->ranks[i].state == RANK_RELEASED) {
            if (!look_at_rank (k, i))
                look_below (k, i);
            return;
        }
    k->look_ms = 0;                     /* nobody is left */
}

int look_when_due (struct keeper *k)
{
    int64_t passed_ms = clock_ms () - k->go_ms;

    if (k->look_ms > 0 && passed_ms >= k->look_ms) {
        look (k);
        while (k->look_ms > 0 && passed_ms >= k->look_ms)
            k->look_ms = k->look_ms < LOOK_LAST_MS ? 2 * k->look_ms : 0;
    }
    return k->look_ms > 0 ? (int) (k->look_ms - passed_ms) : -1;
}
