/* fuzz_frames.c - proven peers that send anything, to an end with everything.
 *
 * An input is a list of steps: what an attacker sends (frames_said.h), how
 * much it reads, when it leaves and comes back, what the end does meanwhile
 * (frames_end.h), and how time passes. Afterwards a neighbour's put arrives,
 * and all that was used is given back.
 */
#include <sys/mman.h>

#include "frames_end.h"
#include "frames_said.h"

#define MOST_BYTES (4u << 20)
#define MOST_STEPS 200

/* ---- steps ---- */

static void step_pass (struct world *w)
{
    static const int64_t ms[] = { 1, 2, 20, 60, 1000, 5000, 30000, 60000 };

    pass_ms (ms[take8 (&w->in) % 8]);
}

/* Leave and come back, perhaps as another process, perhaps at once. */
static void step_again (struct world *w)
{
    uint8_t how = take8 (&w->in);
    struct attacker *a = w->now;

    if (how & 1 && a->fd >= 0)
        shutdown (a->fd, SHUT_WR);
    if (how & 2)
        a->incarnation++;
    if (how & 4) { /* the old connection stays open meanwhile */
        int old = a->fd;

        a->fd = -1;
        shake (w, a);
        if (old >= 0)
            close (old);
    }
    else if (how & 8)
        hang_up (a);
    else
        shake (w, a);
}

static void step (struct world *w)
{
    switch (take8 (&w->in) % 20) {
    case 0:
    case 16:
        step_allowed (w, SIZE_MAX);
        break;
    case 1:
        step_any (w);
        break;
    case 2:
        step_ack (w);
        break;
    case 3:
        step_header (w);
        break;
    case 4:
        step_bytes (w);
        break;
    case 5:
        step_small (w);
        break;
    case 6:
        end_turn (&w->end);
        break;
    case 7:
        step_pass (w);
        break;
    case 8:
        read_some (w, (size_t)size_of (take8 (&w->in)));
        break;
    case 9:
        step_put (w);
        break;
    case 10:
        step_message (w);
        break;
    case 11:
        step_end (w);
        break;
    case 12:
        w->now = &w->attackers[w->now == &w->attackers[0]];
        break;
    case 13:
        step_again (w);
        break;
    case 14:
        step_chunk (w);
        break;
    case 15:
        step_allowed (w, take8 (&w->in)); /* in part: what follows is lost */
        break;
    case 17:
        step_operation (w);
        break;
    case 18:
        step_end_asks (w);
        break;
    case 19:
        step_reply (w);
        break;
    }
}

/* What is for good is made by an input of its own: the table of handles. */
static bool is_warm;

static void warm_up (void)
{
    static bool is_warming;

    if (is_warming)
        return;
    is_warming = true;
    make_directory ();
    end_path = path_of ("end");
    memset (payload, 0xaa, sizeof (payload));
    HOLDS ((object_fd = memfd_create ("object", MFD_CLOEXEC)) >= 0);
    HOLDS (posix_fallocate (object_fd, 0, OBJECT_BYTES) == 0);
    LLVMFuzzerTestOneInput (NULL, 0);
    is_warm = true;
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    struct world w = { .in = { data, size } };
    struct cost before;
    int steps = 0;

    warm_up ();
    forget_timers ();
    before = cost_now ();
    for (int i = 0; i < ATTACKERS; i++)
        w.attackers[i] = (struct attacker){
            .fd = -1, .pid = 1u << 20 | (unsigned)i, .incarnation = 1
        };
    w.now = &w.attackers[0];
    open_ends (&w);
    PtlxSetAddress (w.neighbour.ni, 1, end_path.sun_path);
    for (int i = 0; i < ATTACKERS; i++)
        shake (&w, &w.attackers[i]);
    while (w.in.left > 0 && steps++ < MOST_STEPS) {
        step (&w);
        end_turn (&w.end);
        check_cost (before, MOST_BYTES);
    }
    end_drive (&w.end);
    check_neighbour (&w.end, &w.neighbour);
    for (int i = 0; i < ATTACKERS; i++)
        hang_up (&w.attackers[i]);
    end_drive (&w.end);
    end_close (&w.neighbour);
    end_close (&w.end);
    for (int i = 0; i < 3; i++)
        free (w.memory[i]);
    if (is_warm)
        check_leaks (before);
    return 0;
}
