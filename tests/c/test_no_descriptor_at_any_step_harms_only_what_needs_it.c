/* The process may have no descriptor more than it has, then one, two, ...
 * until the whole scenario runs. Each call says so or what it began ends with
 * an event, and all are closed again.
 */
#include <sys/resource.h>

#include "scenario.h"

static int allowed; /* descriptors */

static void describe (void)
{
    fprintf (stderr, "with %d descriptors\n", allowed);
}

static int lowest_fd (void)
{
    int fd = fcntl (0, F_DUPFD, 0);

    CHECK (fd >= 0);
    close (fd);
    return fd;
}

static void allow (rlim_t most)
{
    struct rlimit limit;

    CHECK (getrlimit (RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = most ? most : limit.rlim_max;
    CHECK (setrlimit (RLIMIT_NOFILE, &limit) == 0);
}

/* Did everything go well? */
static bool run (void)
{
    struct player p[PLAYERS];
    int before = lowest_fd ();
    bool is_fine;

    allow ((rlim_t)(before + allowed));
    is_fine = scenario (p);
    allow (0);
    EXPECT (is_fine);
    EXPECT (lowest_fd () == before);
    return p[0].puts == 4 && p[0].failed == 0 && p[0].lost == 0
        && p[0].object_sent == 1;
}

int main (void)
{
    struct player p[PLAYERS];

    may_fail = true;
    patience_ms = 50; /* nobody can take the call of who dials */
    CHECK (scenario (p));
    expect_all_well (p);
    while (!run ())
        CHECK (allowed++ < 100);
    CHECK (allowed > 15);
    return 0;
}
