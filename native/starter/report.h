/* report.h - what the starter and its keepers report; native/wire/STARTER.md. */
#ifndef YOD_STARTER_REPORT_H
#define YOD_STARTER_REPORT_H

#include <stdint.h>

#define TAIL_BYTES 1024                 /* of each output, in a report */

enum report_kind {
    REPORT_STARTED = 1,
    REPORT_ENDED = 2,
    REPORT_FAILED = 3,                  /* there was no program */
    REPORT_LOST = 4,                    /* the keeper has been killed */
};

enum report_step {
    STEP_FORK = 1, STEP_DIRECTORY, STEP_OUTPUT, STEP_EXEC, STEP_ORDER,
};

enum report_time {
    TIME_BEGAN, TIME_PREPARED, TIME_STARTED, TIME_ENDED, TIME_CLEANED, TIMES,
};

struct report {
    uint32_t kind;
    uint32_t number;
    int32_t value;                      /* unix_pid, wait status or errno */
    uint32_t step;
    uint64_t times_ns[TIMES];           /* of day */
    uint64_t user_us, system_us, max_rss_kb;
    uint32_t output_bytes, error_bytes; /* of the tails behind it */
    char tails[2 * TAIL_BYTES];
};

/* Time of day. */
uint64_t report_now (void);

/* Send it to the caller; waits for room. What cannot be sent is lost with the
 * caller, who has gone. */
void report_send (struct report *report, int fd);

#endif
