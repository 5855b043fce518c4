/* start.h - bring a rank's process from fork to the entry of user code.
 *
 * The keeper only forks; the child does all that may wait for the owner's
 * files: directory, inspection, exec. It says how it got on in messages on
 * one pipe. The words of `gate`, in memory shared with the children, are the
 * keeper's answer to those that have not exec'd.
 */
#ifndef YOD_KEEPER_START_H
#define YOD_KEEPER_START_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "main.h"
#include "report.h"
#include "spec.h"
#include "terminal.h"

enum gate {
    GATE_SHUT = 0,
    GATE_TRACED = 1,                    /* exec now: it stops there, traced */
    GATE_NOT_TRACED = 2,                /* hold before exec */
    GATE_GO = 3,
};

#define KEPT_OUTPUTS 64                 /* more would be many descriptors */

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
    uint32_t *gate;                     /* one word per rank */
    int output_ends[KEPT_OUTPUTS][2];   /* see start_drop_output; -1: none */
    struct terminal terminal;           /* of the rank that has one */
};

/* Make the pipes and the gate. NULL, or what can not be made. */
const char *start_prepare (struct starter *starter, const struct spec *spec);

/* Create the streams and the process of rank number `index`. A record of the
 * start or of the failure is added to `box`.
 *   the child's process id, and in *pmi_fd its descriptor of PMI, -1 for
 *   none; or 0 when there is no child
 */
pid_t start_rank (struct starter *starter, size_t index,
                  struct outbox *box, int *pmi_fd);

/* The end of one of the first KEPT_OUTPUTS ranks is about to be reported. The
 * keeper holds the writing ends of its output until then: else the end of each
 * stream would wake the PCT, and the report once more. */
void start_drop_output (struct starter *starter, size_t index);

/* Answer a child that waits at the gate. */
void start_open_gate (const struct starter *starter, size_t index,
                      enum gate answer);

#endif
