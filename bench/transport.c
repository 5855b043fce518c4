/* transport - measures libportals, for bench/transport.py.
 *
 *     transport spin|block ping|event|trigger SIZE COUNT
 *     transport spin|block stream|bundle      SIZE COUNT WINDOW
 *     transport spin|block peers              SIZE COUNT
 *
 * As socket.c, with puts without acknowledgement over the way that
 * PTL_TRANSPORT names. ping waits for counters, event for event queues; trigger
 * arms all puts of a lap before it and lets each arrival send the next. stream
 * puts one message per call, bundle a window between PtlStartBundle and
 * PtlEndBundle. Whoever spins calls PtlCTGet or PtlEQGet again and again;
 * whoever blocks calls PtlCTWait or PtlEQWait. peers prints the bytes of our heap
 * that each of COUNT processes takes which have put one message and are silent.
 */
#include <malloc.h>

#include "pair.h"
#include "portals4.h"

#define MUST(call)                                                      \
    do {                                                                \
        int rc_ = (call);                                               \
                                                                        \
        if (rc_ != PTL_OK) {                                            \
            fprintf (stderr, "%s: %d\n", #call, rc_);                   \
            exit (1);                                                   \
        }                                                               \
    } while (0)

enum { ANSWER = 8, DATA = 1, NOTHING = 2, ARMED = 512, QUEUE = 64 };

/* One process's side: memory that the other puts into, and what counts it. */
struct side {
    ptl_handle_ni_t ni;
    ptl_handle_ct_t ct;
    ptl_handle_eq_t eq;
    ptl_handle_me_t me;
    ptl_handle_md_t md;
    ptl_pt_index_t index;
    ptl_process_t self, other;
    ptl_size_t size;
    uint8_t *in, *out;
};

static struct pair pair;
static struct side side;
static bool spins, uses_events;

static void open_interface (void)
{
    ptl_ni_limits_t wanted = { .max_triggered_ops = ARMED + 1 }, given;

    MUST (PtlInit ());
    MUST (PtlNIInit (PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL,
                     PTL_PID_ANY, &wanted, &given, &side.ni));
    MUST (PtlGetPhysId (side.ni, &side.self));
    MUST (PtlCTAlloc (side.ni, &side.ct));
    MUST (PtlEQAlloc (side.ni, QUEUE, &side.eq));
    MUST (PtlPTAlloc (side.ni, 0, side.eq, 0, &side.index));
}

static void open_memory (ptl_size_t size)
{
    unsigned events = uses_events ? 0 : PTL_ME_EVENT_COMM_DISABLE;
    ptl_me_t me = {
        .length = size,
        .ct_handle = side.ct,
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE
            | PTL_ME_EVENT_UNLINK_DISABLE | PTL_ME_EVENT_CT_COMM | events,
        .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY },
        .match_bits = DATA,
    };
    ptl_md_t md = { .length = size, .eq_handle = PTL_EQ_NONE,
                    .ct_handle = PTL_CT_NONE };

    side.size = size;
    me.start = side.in = pair_memory (size);
    md.start = side.out = pair_memory (size);
    MUST (PtlMEAppend (side.ni, side.index, &me, PTL_PRIORITY_LIST, NULL,
                       &side.me));
    MUST (PtlMDBind (side.ni, &md, &side.md));
}

static void close_interface (void)
{
    PtlMDRelease (side.md);
    PtlMEUnlink (side.me);
    PtlPTFree (side.ni, side.index);
    PtlEQFree (side.eq);
    PtlCTFree (side.ct);
    PtlNIFini (side.ni);
    PtlFini ();
}

static void give (ptl_size_t size)
{
    MUST (PtlPut (side.md, 0, size, PTL_NO_ACK_REQ, side.other, side.index,
                  DATA, 0, NULL, 0));
}

/* Reach the other before the time is taken: to no entry of its own, so that
 * only our side counts. */
static void reach (void)
{
    ptl_md_t md = { .options = PTL_MD_EVENT_CT_SEND,
                    .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE };
    ptl_ct_event_t seen;
    ptl_handle_md_t empty;

    MUST (PtlCTAlloc (side.ni, &md.ct_handle));
    MUST (PtlMDBind (side.ni, &md, &empty));
    MUST (PtlPut (empty, 0, 0, PTL_NO_ACK_REQ, side.other, side.index,
                  NOTHING, 0, NULL, 0));
    MUST (PtlCTWait (md.ct_handle, 1, &seen));
    if (seen.failure) {
        fprintf (stderr, "the other cannot be reached\n");
        exit (1);
    }
    MUST (PtlMDRelease (empty));
    MUST (PtlCTFree (md.ct_handle));
}

/* Until `count` messages have come in all. */
static void take_counted (uint64_t count)
{
    ptl_ct_event_t seen = { 0, 0 };

    if (spins)
        do
            MUST (PtlCTGet (side.ct, &seen));
        while (seen.success < count && seen.failure == 0);
    else
        MUST (PtlCTWait (side.ct, count, &seen));
    if (seen.failure)
        exit (1);
}

/* One more message. */
static void take_event (void)
{
    ptl_event_t event;
    int rc;

    if (spins)
        while ((rc = PtlEQGet (side.eq, &event)) == PTL_EQ_EMPTY)
            ;
    else
        rc = PtlEQWait (side.eq, &event);
    MUST (rc);
    if (event.type != PTL_EVENT_PUT || event.ni_fail_type != PTL_NI_OK)
        exit (1);
}

/* Message `number`, from 1. */
static void take (uint64_t number)
{
    if (uses_events)
        take_event ();
    else
        take_counted (number);
    pair_check (side.in, number);
}

/* ---- tests ---- */

static double ping (uint64_t count)
{
    struct pair_clock clock;

    pair_meet (&pair);
    pair_clock_start (&clock, count);
    for (uint64_t i = 1; i <= count; i++) {
        pair_mark (side.out, i);
        if (pair.rank == 0)
            give (side.size);
        take (i);
        if (pair.rank == 1)
            give (side.size);
        pair_clock_step (&clock);
    }
    return pair_clock_read (&clock) / 2;
}

/* Rank 0 is woken by arrivals up to the last but one, and by the last no more
 * than told; rank 1 answers every one. */
static void arm (uint64_t from, uint64_t count)
{
    for (uint64_t i = from; i < from + count; i++)
        MUST (PtlTriggeredPut (side.md, 0, side.size, PTL_NO_ACK_REQ,
                               side.other, side.index, DATA, 0, NULL, 0,
                               side.ct, i));
}

static double trigger (uint64_t count)
{
    uint64_t laps = count / ARMED ? count / ARMED : 1, done = 0;
    int64_t *lap = calloc (laps, sizeof (*lap));

    pair_need (lap != NULL, "memory");
    for (uint64_t i = 0; i < laps; i++, done += ARMED) {
        arm (done + 1, pair.rank == 0 ? ARMED - 1 : ARMED);
        pair_meet (&pair);
        lap[i] = -pair_now_ns ();
        if (pair.rank == 0)
            give (side.size);
        take_counted (done + ARMED);
        lap[i] += pair_now_ns ();
    }
    qsort (lap, laps, sizeof (*lap), pair_is_longer);
    return (double)lap[laps / 2] / ARMED / 2;
}

static void give_window (uint64_t window, bool is_bundle)
{
    if (is_bundle)
        MUST (PtlStartBundle (side.ni));
    while (window-- > 0)
        give (side.size);
    if (is_bundle)
        MUST (PtlEndBundle (side.ni));
}

static double stream (uint64_t count, uint64_t window, bool is_bundle)
{
    struct pair_clock clock;

    pair_meet (&pair);
    pair_clock_start (&clock, count);
    for (uint64_t i = 0; i < count; i++) {
        if (pair.rank == 0) {
            give_window (window, is_bundle);
            take_counted (i);
        } else {
            take_counted ((i + 1) * window);
            give (ANSWER);
        }
        pair_clock_step (&clock);
    }
    if (pair.rank == 0)
        take_counted (count);
    return pair_clock_read (&clock) / (double)window;
}

static int measure (const char *test, ptl_size_t size, uint64_t count,
                    uint64_t window)
{
    double taken;

    uses_events = strcmp (test, "event") == 0;
    pair_start (&pair);
    open_interface ();
    open_memory (size);
    pair_swap (&pair, &side.self, &side.other, sizeof (side.self));
    reach ();
    if (strcmp (test, "trigger") == 0)
        taken = trigger (count);
    else if (strcmp (test, "ping") == 0 || uses_events)
        taken = ping (count);
    else
        taken = stream (count, window, strcmp (test, "bundle") == 0);
    pair_meet (&pair);
    close_interface ();
    if (pair.rank == 0)
        printf ("%.1f\n", taken);
    return pair_end (&pair);
}

/* ---- idle peers ---- */

static size_t heap_bytes (void)
{
    struct mallinfo2 info = mallinfo2 ();

    return info.uordblks + info.hblkhd;
}

/* Learns whom to put to, puts, and is there until `end` does. */
static void be_peer (int from, int to, int end)
{
    ptl_md_t md = { .length = ANSWER, .options = PTL_MD_EVENT_CT_SEND,
                    .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE };
    char byte;

    if (read (from, &side.other, sizeof (side.other))
        != (ssize_t)sizeof (side.other))
        _exit (0);
    open_interface ();
    md.start = pair_memory (ANSWER);
    md.ct_handle = side.ct;
    MUST (PtlMDBind (side.ni, &md, &side.md));
    give (ANSWER);
    take_counted (1);
    if (write (to, "", 1) == 1)
        (void)!read (end, &byte, 1);
    _exit (0);
}

static int idle_peers (uint64_t count)
{
    int down[2], up[2], end[2];
    size_t before;
    char byte;

    pair_need (pipe (down) == 0 && pipe (up) == 0 && pipe (end) == 0, "pipe");
    for (uint64_t i = 0; i < count + 1; i++)
        if (fork () == 0) {
            close (down[1]);
            close (end[1]);
            be_peer (down[0], up[1], end[0]);
        }
    open_interface ();
    open_memory (ANSWER);
    /* The first makes what there is one of. */
    pair_need (write (down[1], &side.self, sizeof (side.self)) > 0, "pipe");
    take_counted (1);
    before = heap_bytes ();
    for (uint64_t i = 0; i < count; i++)
        pair_need (write (down[1], &side.self, sizeof (side.self)) > 0,
                   "pipe");
    take_counted (count + 1);
    for (uint64_t i = 0; i < count + 1; i++)
        pair_need (read (up[0], &byte, 1) == 1, "pipe");
    printf ("%.1f\n", ((double)heap_bytes () - (double)before) / (double)count);
    close (down[1]);
    close (end[1]);
    while (wait (NULL) > 0)
        ;
    close_interface ();
    return 0;
}

int main (int argc, char **argv)
{
    uint64_t size, count;

    if (argc < 5)
        return 2;
    spins = strcmp (argv[1], "spin") == 0;
    size = strtoull (argv[3], NULL, 10);
    count = strtoull (argv[4], NULL, 10);
    if (strcmp (argv[2], "peers") == 0)
        return idle_peers (count);
    return measure (argv[2], size, count,
                    argc > 5 ? strtoull (argv[5], NULL, 10) : 1);
}
