/* spec.h - what a keeper is told before it starts: the specification.
 *
 * A file (memfd) written by the PCT, mapped here and checked field by field;
 * native/wire/KEEPER.md has the layout. Strings stay in the mapping, which
 * lives as long as the keeper. Nothing in it is trusted before it is checked,
 * but its writer may not shrink the file while the keeper runs.
 */
#ifndef YOD_KEEPER_SPEC_H
#define YOD_KEEPER_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SPEC_MAGIC 0x314b4f59u          /* "YOK1" */
#define SPEC_MAX_BYTES (256u << 20)
#define SPEC_MAX_RANKS 65536u           /* slots of a node (wire/base.py) */
#define SPEC_MAX_CPU_WORDS 1024u        /* 65536 processors */
#define SPEC_MAX_REMOTE 16u
#define SPEC_KEEP (UINT64_MAX - 1)       /* leave this half of a limit alone */

enum spec_hold {
    HOLD_AUTO = 0,                      /* preload where it works, else trace */
    HOLD_TRACE = 1,
    HOLD_BEFORE_EXEC = 2,
    HOLD_FOR_DEBUGGERS = 3,             /* as auto; traced ranks then stopped */
    HOLD_WITH_TRACER = 4,               /* as auto; it ends after its program */
};

enum spec_rank_flags {
    RANK_WANTS_STDIN = 1,
    RANK_WANTS_PMI = 2,
    RANK_WANTS_PORTALS = 4,             /* a listener, and the job's map */
    RANK_IS_BOUND = 8,                  /* to the processors of its mask */
    RANK_HAS_FILES = 16,                /* for its output */
    RANK_APPENDS = 32,                  /* to them; else they are empty first */
    RANK_HAS_TERMINAL = 64,             /* instead of three streams */
    RANK_IS_TRACED = 128,               /* held at a signal that ends it */
    RANK_SIGNALS_GROUP = 256,           /* any signal reaches its helpers, too */
};

struct spec_limit {
    int resource;                       /* RLIMIT_… */
    uint64_t soft, hard;                /* SPEC_KEEP: unchanged */
};

struct spec_strings {
    size_t count;
    char **list;                        /* NULL terminated */
};

struct spec_program {
    const char *path;                   /* the image; may differ from argv[0] */
    const char *cwd;
    enum spec_hold hold;
    struct spec_strings argv;
};

struct spec_rank {
    uint32_t rank;
    const struct spec_program *program;
    uint32_t flags;
    struct spec_strings environment;    /* replaces shared ones of that name */
    const char *cpus;                   /* RANK_IS_BOUND: words of 64 bits */
    size_t n_cpu_words;
    const char *files[2];               /* RANK_HAS_FILES: of descriptors 1 and 2; "": the pipe */
    uint32_t window;                    /* RANK_HAS_TERMINAL: rows, columns << 16 */
};

struct spec {
    uint64_t job_id;
    pid_t parent;                       /* who must still be our parent */
    uid_t uid;
    gid_t gid;
    mode_t umask;
    size_t n_groups, n_limits, n_programs, n_ranks;
    uint32_t listen_nid;                /* IPv4 address; RANK_WANTS_PORTALS */
    bool is_alone;                      /* no rank waits for another keeper */
    uint64_t ignored;                   /* bit signo - 1: ranks ignore it */
    bool wants_portals;                 /* some rank does */
    bool has_terminal;                  /* likewise, and no other */
    bool is_traced;                     /* some rank is */
    bool has_tracers;                   /* some program has one of its own */
    gid_t *groups;
    struct spec_limit *limits;
    const char *hold_library;          /* "": none, so always trace */
    const char *group;                  /* of the job, see group.h; "": none */
    const char *denied;                 /* to the group, see devices/; "": none */
    struct spec_strings remote;         /* directories, see remote.h */
    struct spec_strings environment;
    struct spec_program *programs;
    struct spec_rank *ranks;
};

/* Map and check the specification in `fd`.
 *   NULL      *specp is the specification; it is never freed
 *   a text    what is wrong with it, for a diagnostic
 */
const char *spec_read (int fd, struct spec **specp);

#endif
