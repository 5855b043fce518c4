/* The earliest deadline is always the next, as a model says that looks at all
 * of them: whatever is set, set earlier, set later (which changes nothing) and
 * taken out before it was due. */
#include "harness.h"
#include "ptl_due.h"

#define MANY 300
#define STEPS 60000
#define TIMES 1000

static struct ptl_due dues[MANY];
static int64_t model[MANY]; /* PTL_NEVER: not set */
static uint32_t seed = 1;

static unsigned below (unsigned n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static int64_t earliest (void)
{
    int64_t found = PTL_NEVER;

    for (int i = 0; i < MANY; i++)
        found = model[i] < found ? model[i] : found;
    return found;
}

static void pop (struct ptl_dues *all, int64_t now)
{
    struct ptl_due *due = ptl_dues_pop (all, now);
    int64_t expected = earliest ();

    CHECK ((due != NULL) == (expected <= now));
    if (!due)
        return;
    CHECK (due->at_ms == expected && model[due - dues] == expected);
    model[due - dues] = PTL_NEVER;
}

static void act (struct ptl_dues *all)
{
    unsigned i = below (MANY);
    int64_t at = below (TIMES);

    switch (below (4)) {
    case 0:
    case 1:
        ptl_dues_put (all, &dues[i], at);
        model[i] = at < model[i] ? at : model[i];
        break;
    case 2:
        ptl_dues_remove (all, &dues[i]);
        model[i] = PTL_NEVER;
        break;
    case 3:
        pop (all, at);
        break;
    }
    CHECK (ptl_dues_next (all) == earliest ());
}

int main (void)
{
    struct ptl_dues all = { NULL };

    for (int i = 0; i < MANY; i++)
        model[i] = PTL_NEVER;
    for (int i = 0; i < STEPS; i++)
        act (&all);
    for (int i = 0; i < MANY; i++)
        pop (&all, TIMES);
    CHECK (ptl_dues_next (&all) == PTL_NEVER);
    return 0;
}
