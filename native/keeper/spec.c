#include "spec.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* What is left to read. After the first fault everything reads as zero, so
 * a caller may check once after several fields. */
struct cursor {
    char *next;
    size_t left;
    const char *problem;
};

static char *take (struct cursor *c, size_t n)
{
    char *start = c->next;

    if (c->problem)
        return NULL;
    if (n > c->left) {
        c->problem = "cut short";
        return NULL;
    }
    c->next += n;
    c->left -= n;
    return start;
}

static uint32_t take_u32 (struct cursor *c)
{
    uint32_t value = 0;
    char *from = take (c, sizeof (value));

    if (from)
        memcpy (&value, from, sizeof (value));
    return value;
}

static uint64_t take_u64 (struct cursor *c)
{
    uint64_t value = 0;
    char *from = take (c, sizeof (value));

    if (from)
        memcpy (&value, from, sizeof (value));
    return value;
}

/* A table for `count` entries that each need at least `bytes_each` of what
 * is left, so a lie about the count can not make us reserve more memory than
 * a small multiple of the file. */
static void *table (struct cursor *c, size_t count, size_t bytes_each,
                    size_t entry_size)
{
    void *entries;

    if (c->problem)
        return NULL;
    if (count > c->left / bytes_each) {
        c->problem = "a count is larger than the file";
        return NULL;
    }
    if (!(entries = calloc (count + 1, entry_size)))
        c->problem = "no memory";
    return entries;
}

/* count, bytes, then that many bytes that hold count NUL-ended strings. */
static struct spec_strings take_strings (struct cursor *c)
{
    struct spec_strings strings = { 0 };
    size_t count = take_u32 (c), bytes = take_u32 (c);
    char *blob = take (c, bytes), *end;

    if (c->problem)
        return strings;
    if (count > bytes) {
        c->problem = "a list of strings has a wrong count";
        return strings;
    }
    if (!(strings.list = calloc (count + 1, sizeof (char *)))) {
        c->problem = "no memory";
        return strings;
    }
    while (strings.count < count) {
        if (!(end = memchr (blob, 0, bytes)))
            break;
        strings.list[strings.count++] = blob;
        bytes -= (size_t) (end + 1 - blob);
        blob = end + 1;
    }
    if (strings.count != count || bytes != 0)
        c->problem = "a list of strings has a wrong count";
    return strings;
}

static const char *take_string (struct cursor *c)
{
    struct spec_strings strings = take_strings (c);
    const char *only = strings.count == 1 ? strings.list[0] : "";

    if (!c->problem && strings.count != 1)
        c->problem = "a string is missing";
    free (strings.list);
    return only;
}

static void take_programs (struct cursor *c, struct spec *spec)
{
    spec->programs = table (c, spec->n_programs, 4, sizeof (*spec->programs));
    for (size_t i = 0; i < spec->n_programs && !c->problem; i++) {
        struct spec_program *program = &spec->programs[i];
        uint32_t hold = take_u32 (c);

        program->hold = (enum spec_hold) hold;
        spec->has_tracers |= hold == HOLD_WITH_TRACER;
        program->path = take_string (c);
        program->cwd = take_string (c);
        program->argv = take_strings (c);
        if (!c->problem && (hold > HOLD_WITH_TRACER || !*program->path
                            || program->argv.count == 0))
            c->problem = "a program is not valid";
    }
}

/* A mask of processors: a count of words of 64 bits, then these. It is neither
 * empty nor longer than any kernel's. */
static void take_cpus (struct cursor *c, struct spec_rank *rank)
{
    bool any = false;

    rank->n_cpu_words = take_u32 (c);
    if (!c->problem && (rank->n_cpu_words == 0
                        || rank->n_cpu_words > SPEC_MAX_CPU_WORDS))
        c->problem = "a rank is bound to a wrong number of processors";
    rank->cpus = take (c, 8 * rank->n_cpu_words);
    for (size_t i = 0; !c->problem && i < 8 * rank->n_cpu_words; i++)
        any |= rank->cpus[i] != 0;
    if (!c->problem && !any)
        c->problem = "a rank is bound to no processor";
}

/* Whether the flags of a rank have no terminal, or the only one, for all of its
 * streams. */
static bool may_have_terminal (struct spec *spec, const struct spec_rank *rank)
{
    bool is_second = spec->has_terminal;

    if (!(rank->flags & RANK_HAS_TERMINAL))
        return true;
    spec->has_terminal = true;
    return !is_second && rank->flags & RANK_WANTS_STDIN
           && !(rank->flags & RANK_HAS_FILES);
}

static void take_ranks (struct cursor *c, struct spec *spec)
{
    spec->ranks = table (c, spec->n_ranks, 12, sizeof (*spec->ranks));
    for (size_t i = 0; i < spec->n_ranks && !c->problem; i++) {
        struct spec_rank *rank = &spec->ranks[i];
        uint32_t program;

        rank->rank = take_u32 (c);
        program = take_u32 (c);
        rank->flags = take_u32 (c);
        rank->environment = take_strings (c);
        if (!c->problem && (program >= spec->n_programs
                            || rank->flags & ~511u
                            || !may_have_terminal (spec, rank)
                            || (rank->flags & RANK_WANTS_PORTALS
                                && spec->listen_nid == 0)))
            c->problem = "a rank is not valid";
        if (!c->problem && rank->flags & RANK_IS_BOUND)
            take_cpus (c, rank);
        for (int f = 0; f < 2 && !c->problem && rank->flags & RANK_HAS_FILES; f++)
            rank->files[f] = take_string (c);
        if (rank->flags & RANK_HAS_TERMINAL)
            rank->window = take_u32 (c);
        spec->wants_portals |= (rank->flags & RANK_WANTS_PORTALS) != 0;
        spec->is_traced |= (rank->flags & RANK_IS_TRACED) != 0;
        if (!c->problem)
            rank->program = &spec->programs[program];
    }
}

static void take_all (struct cursor *c, struct spec *spec)
{
    if (take_u32 (c) != SPEC_MAGIC && !c->problem)
        c->problem = "not of this version";
    spec->parent = (pid_t) take_u32 (c);
    spec->job_id = take_u64 (c);
    spec->uid = take_u32 (c);
    spec->gid = take_u32 (c);
    spec->umask = take_u32 (c) & 0777;
    spec->n_groups = take_u32 (c);
    spec->n_limits = take_u32 (c);
    spec->n_programs = take_u32 (c);
    spec->n_ranks = take_u32 (c);
    spec->listen_nid = take_u32 (c);
    spec->is_alone = take_u32 (c) != 0;
    spec->ignored = take_u64 (c);
    if (!c->problem && (spec->n_ranks == 0 || spec->n_ranks > SPEC_MAX_RANKS))
        c->problem = "the number of ranks is not within 1 and 65536";
    if (!c->problem && (spec->uid == (uid_t) -1 || spec->gid == (gid_t) -1))
        c->problem = "no owner";

    spec->groups = table (c, spec->n_groups, 4, sizeof (gid_t));
    for (size_t i = 0; i < spec->n_groups && !c->problem; i++)
        spec->groups[i] = take_u32 (c);
    spec->limits = table (c, spec->n_limits, 20, sizeof (*spec->limits));
    for (size_t i = 0; i < spec->n_limits && !c->problem; i++) {
        spec->limits[i].resource = (int) take_u32 (c);
        spec->limits[i].soft = take_u64 (c);
        spec->limits[i].hard = take_u64 (c);
    }
    spec->hold_library = take_string (c);
    spec->group = take_string (c);
    spec->denied = take_string (c);
    spec->remote = take_strings (c);
    if (!c->problem && spec->remote.count > SPEC_MAX_REMOTE)
        c->problem = "too many directories";
    spec->environment = take_strings (c);
    take_programs (c, spec);
    take_ranks (c, spec);
    if (!c->problem && c->left != 0)
        c->problem = "longer than its content";
}

const char *spec_read (int fd, struct spec **specp)
{
    struct cursor c = { 0 };
    struct stat file;
    struct spec *spec;

    if (fstat (fd, &file) != 0)
        return "not readable";
    if (file.st_size <= 0 || file.st_size > (off_t) SPEC_MAX_BYTES)
        return "empty or too long";
    c.left = (size_t) file.st_size;
    c.next = mmap (NULL, c.left, PROT_READ, MAP_PRIVATE, fd, 0);
    if (c.next == MAP_FAILED)
        return "not mappable";
    if (!(spec = calloc (1, sizeof (*spec))))
        return "no memory";
    take_all (&c, spec);
    *specp = spec;
    return c.problem;
}
