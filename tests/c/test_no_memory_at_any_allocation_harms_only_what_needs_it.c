/* The first allocation fails, then the second, ... until the whole scenario
 * runs without a failure; and then the same where from that one on all fail.
 * Each call says so or what it began ends with an event; all that was taken
 * is given back, and the interface can be ended.
 * link: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup,--wrap=free
 */
#include <sys/wait.h>

#include "scenario.h"

void *__real_malloc (size_t size);
void *__real_calloc (size_t n, size_t size);
void *__real_realloc (void *old, size_t size);
char *__real_strdup (const char *text);
void __real_free (void *block);
void *__wrap_malloc (size_t size);
void *__wrap_calloc (size_t n, size_t size);
void *__wrap_realloc (void *old, size_t size);
char *__wrap_strdup (const char *text);
void __wrap_free (void *block);

static int asked, fail_from, fail_to; /* numbers of allocations; 0: none */
static int live;                      /* blocks */

static void describe (void)
{
    fprintf (stderr, "allocations %d to %d failed\n", fail_from, fail_to);
}

static bool fails (void)
{
    asked++;
    if (fail_from == 0 || asked < fail_from || asked > fail_to)
        return false;
    errno = ENOMEM;
    return true;
}

static void *count (void *block)
{
    live += block != NULL;
    return block;
}

void *__wrap_malloc (size_t size)
{
    return fails () ? NULL : count (__real_malloc (size));
}

void *__wrap_calloc (size_t n, size_t size)
{
    return fails () ? NULL : count (__real_calloc (n, size));
}

void *__wrap_realloc (void *old, size_t size)
{
    if (fails ())
        return NULL;
    return old ? __real_realloc (old, size) : count (__real_malloc (size));
}

char *__wrap_strdup (const char *text)
{
    return fails () ? NULL : count (__real_strdup (text));
}

void __wrap_free (void *block)
{
    live -= block != NULL;
    __real_free (block);
}

/* False: the scenario did not ask so often. */
static bool run (int from, int to)
{
    struct player players[PLAYERS];
    int before = live;
    bool is_fine;

    asked = 0;
    fail_from = from;
    fail_to = to;
    is_fine = scenario (players);
    fail_to = 0;
    /* Where nothing can be had any more, not even the word of a loss can. */
    EXPECT (is_fine || to != from);
    EXPECT (live == before);
    if (asked < from)
        expect_all_well (players);
    return asked >= from;
}

/* In a process that has used the library for nothing yet. */
static void run_afresh (int from, int to)
{
    int status;
    pid_t child = fork ();

    CHECK (child >= 0);
    if (child == 0) {
        struct player players[PLAYERS];

        fail_from = from;
        fail_to = to;
        _exit (scenario (players) || from != to ? 0 : 1);
    }
    CHECK (waitpid (child, &status, 0) == child);
    fail_from = from;
    EXPECT (status == 0);
}

static void run_all (void)
{
    int n;

    for (n = 1; run (n, n); n++)
        ;
    for (n = 1; run (n, INT32_MAX); n++)
        ;
}

int main (void)
{
    struct player players[PLAYERS];

    for (int n = 1; n <= 12; n++) {
        run_afresh (n, n);
        run_afresh (n, INT32_MAX);
    }
    fail_from = 0;
    CHECK (scenario (players)); /* the table of handles is for good */
    expect_all_well (players);
    run_all ();
    messages_first = true;
    run_all ();
    return 0;
}
