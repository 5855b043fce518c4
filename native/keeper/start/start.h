/* start.h - bring a rank's process from fork to the entry of user code.
 *
 * The keeper only forks; its children do all that may wait for the owner's
 * files: directory, inspection, exec. A child is a rank, or a spawner that makes
 * several (spawn.h), whose process ids come to memory shared with the keeper. A
 * rank says how it got on in messages on one pipe; its `gate`, in that memory,
 * is the keeper's answer to one that has not exec'd.
 */
#ifndef YOD_KEEPER_START_H
#define YOD_KEEPER_START_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "../main.h"
#include "../spec.h"
#include "../terminal.h"
#include "streams.h"

enum gate {
    GATE_SHUT = 0,
    GATE_TRACED = 1,                    /* exec now: it stops there, traced */
    GATE_NOT_TRACED = 2,                /* hold before exec */
    GATE_GO = 3,
};

struct starter {
    const struct spec *spec;
    pid_t keeper;
    int niceness;                       /* of the ranks, not of the keeper */
    int null_fd;                        /* /dev/null */
    int group_fd;                       /* of the ranks; see group.h */
    int report_fd;                      /* messages, the writers' end */
    int messages_fd;                    /* messages, the keeper's end */
    int go_reader, go_writer;           /* one byte per preloaded rank */
    int claims_fd;                      /* -1: none can be made here */
    bool may_preload;
    struct shared *shared;              /* one per rank */
    struct streams *streams;            /* likewise */
    struct terminal terminal;           /* of the rank that has one */
};

/* What the keeper and the makers of ranks tell each other. */
struct shared {
    uint32_t gate;                      /* enum gate */
    pid_t born;                         /* the process; 0: not yet */
};

/* Make the pipes and the shared memory. NULL, or what can not be made. */
const char *start_prepare (struct starter *starter, const struct spec *spec);

/* Create the streams of rank number `index`, and its terminal if it has one.
 *   false   errno says why not; there are none
 */
bool start_make_streams (struct starter *starter, size_t index);

/* Fork the process of a rank that has streams. 0, or errno. */
int start_fork (struct starter *starter, size_t index);

/* The rank's process id; 0: it has none yet. */
pid_t start_born (const struct starter *starter, size_t index);

/* Answer a child that waits at the gate. */
void start_open_gate (const struct starter *starter, size_t index,
                      enum gate answer);

#endif
