#include "ptl_due.h"

static void point (struct ptl_due **from, struct ptl_due *due)
{
    *from = due;
    if (due)
        due->from = from;
}

/* Of two heaps, without siblings, make one. */
static struct ptl_due *meld (struct ptl_due *a, struct ptl_due *b)
{
    struct ptl_due *later = b;

    if (!a || !b)
        return a ? a : b;
    if (b->at_ms < a->at_ms) {
        later = a;
        a = b;
    }
    point (&later->next, a->child);
    point (&a->child, later);
    return a;
}

/* Of all siblings make one: in pairs first, which is what keeps it flat. */
static struct ptl_due *meld_all (struct ptl_due *first)
{
    struct ptl_due *pairs = NULL, *root = NULL, *a, *b;

    while ((a = first)) {
        b = a->next;
        first = b ? b->next : NULL;
        a->next = NULL;
        if (b)
            b->next = NULL;
        a = meld (a, b);
        a->next = pairs;
        pairs = a;
    }
    while ((a = pairs)) {
        pairs = a->next;
        a->next = NULL;
        root = meld (root, a);
    }
    return root;
}

void ptl_dues_put (struct ptl_dues *dues, struct ptl_due *due, int64_t at_ms)
{
    if (due->from && due->at_ms <= at_ms)
        return;
    ptl_dues_remove (dues, due);
    due->at_ms = at_ms;
    point (&dues->first, meld (dues->first, due));
}

void ptl_dues_remove (struct ptl_dues *dues, struct ptl_due *due)
{
    struct ptl_due *later;

    if (!due->from)
        return;
    point (due->from, due->next);
    later = meld_all (due->child);
    due->child = due->next = NULL;
    due->from = NULL;
    point (&dues->first, meld (dues->first, later));
}

struct ptl_due *ptl_dues_pop (struct ptl_dues *dues, int64_t now_ms)
{
    struct ptl_due *due = dues->first;

    if (!due || due->at_ms > now_ms)
        return NULL;
    ptl_dues_remove (dues, due);
    return due;
}
