/* Reads a specification from standard input, then every truncation of it and
 * many random changes: spec_read accepts or refuses each, and nothing worse.
 * Built with sanitizers. Prints how many were accepted.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "spec.h"

#define ROUNDS 8000

static uint64_t state = 88172645463325252u;

static uint64_t chance (void)           /* xorshift64 */
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static size_t length_of (struct spec_strings strings)
{
    size_t n = 0;

    for (size_t i = 0; i < strings.count; i++)
        n += strlen (strings.list[i]);
    return n;
}

/* Touch all that an accepted specification points to. */
static size_t walk (const struct spec *spec)
{
    size_t n = strlen (spec->hold_library) + strlen (spec->group)
               + strlen (spec->denied)
               + length_of (spec->environment);

    for (size_t i = 0; i < spec->n_groups; i++)
        n += spec->groups[i];
    for (size_t i = 0; i < spec->n_limits; i++)
        n += spec->limits[i].soft;
    for (size_t i = 0; i < spec->n_programs; i++)
        n += strlen (spec->programs[i].path) + strlen (spec->programs[i].cwd)
             + length_of (spec->programs[i].argv);
    for (size_t i = 0; i < spec->n_ranks; i++) {
        n += length_of (spec->ranks[i].environment)
             + strlen (spec->ranks[i].program->path);
        for (size_t at = 0; at < 8 * spec->ranks[i].n_cpu_words; at++)
            n += (unsigned char) spec->ranks[i].cpus[at];
    }
    return n;
}

static int accepts (const char *bytes, size_t n)
{
    struct spec *spec = NULL;
    int fd = memfd_create ("spec", 0);
    const char *problem;

    if (fd < 0 || write (fd, bytes, n) != (ssize_t) n)
        exit (2);
    problem = spec_read (fd, &spec);
    close (fd);
    if (!problem)
        walk (spec);
    else if (strchr (problem, '\n'))
        exit (3);
    return !problem;
}

int main (void)
{
    static char whole[65536], bytes[65536];
    size_t n = fread (whole, 1, sizeof (whole), stdin), n_accepted = 0;

    if (n == 0 || !accepts (whole, n))
        return 1;
    for (size_t cut = 0; cut < n; cut++)
        if (accepts (whole, cut))
            return 4;
    whole[n] = 0;
    if (accepts (whole, n + 1))
        return 5;
    for (int i = 0; i < ROUNDS; i++) {
        memcpy (bytes, whole, n);
        for (uint64_t changes = 1 + chance () % 4; changes > 0; changes--)
            bytes[chance () % n] = (char) (chance () % 3 ? chance () : 255);
        n_accepted += (size_t) accepts (bytes, n);
    }
    printf ("%zu\n", n_accepted);
    return 0;
}
