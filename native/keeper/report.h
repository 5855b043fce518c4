/* report.h - what the keeper tells its PCT: records on the control socket.
 *
 * Records wait in an outbox and go out several to a packet when the loop is
 * about to sleep. The layout is that of native/wire/KEEPER.md; numbers are
 * little-endian, which both machines that we build for are.
 */
#ifndef YOD_KEEPER_REPORT_H
#define YOD_KEEPER_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum report_kind {
    REPORT_STARTED = 1,                 /* value: unix_pid; fds: which ones */
    REPORT_HELD = 2,                    /* value: enum held_how */
    REPORT_EXEC_FAILED = 3,             /* value: errno; step; text */
    REPORT_ENDED = 4,                   /* value: wait status; flags; times;
                                         * text: the MPI library's path */
    REPORT_EMPTY = 5,
    REPORT_FAILED = 6,                  /* the keeper itself; text */
    REPORT_DEVICES_OPEN = 7,            /* none is denied; text */
    REPORT_MOUNTED = 8,                 /* rank: which directory; fds */
    REPORT_DYING = 9,                   /* value: signal; step: its thread */
};

enum held_how {
    HELD_PRELOAD = 1,
    HELD_TRACE = 2,
    HELD_BEFORE_EXEC = 3,
};

/* Where starting a rank failed. */
enum step {
    STEP_STREAMS = 1,                   /* pipes, sockets, their descriptors */
    STEP_FORK = 2,
    STEP_LIMITS = 3,
    STEP_CHDIR = 4,
    STEP_OPEN = 5,                      /* the program itself can not be seen */
    STEP_INTERPRETER = 6,               /* of a script; text is its path */
    STEP_LOADER = 7,                    /* of an ELF file; text is its path */
    STEP_EXEC = 8,
    STEP_SETUID_REFUSED = 9,
    STEP_CAPABILITY_REFUSED = 10,
    STEP_MEMORY = 11,
    STEP_AFFINITY = 12,
    STEP_OUTPUT = 13,                   /* a file for its output */
};

enum report_fds {                       /* sent in this order */
    FD_STDIN = 1,
    FD_STDOUT = 2,
    FD_STDERR = 4,
    FD_PMI = 8,
    FD_MOUNT = 16,                      /* of MOUNTED only */
};

/* flags of REPORT_ENDED */
#define REPORT_WAS_RELEASED 1
#define REPORT_WAS_SIGNALLED 2          /* by us, with what ended it */
#define REPORT_TEXT_BYTES 200

struct report {
    uint16_t kind, flags;
    uint32_t rank;
    int32_t value;
    uint32_t step;
    uint64_t user_us, system_us, max_rss_kb, ended_at_ns;
    uint32_t text_bytes;
    uint32_t fds;
    char text[REPORT_TEXT_BYTES];
};
_Static_assert (sizeof (struct report) == 256, "native/wire/KEEPER.md");

#define PACKET_REPORTS 32
#define PACKET_FDS 128                  /* below the kernel's 253 */
#define OUTBOX_FDS 512                  /* may wait: a packet's and of all batches */

struct outbox {
    int socket;
    bool is_broken;                     /* the PCT is gone; all is dropped */
    bool is_urgent;                     /* not only normal ends wait */
    struct report *reports;
    size_t first, count, room;
    int fds[OUTBOX_FDS];
    size_t n_fds;
};

/* A zeroed record at the end of the queue, to be filled in by the caller.
 * Valid until the next call. The process ends when there is no memory: the
 * PCT then sees a lost keeper. */
struct report *report_add (struct outbox *box, enum report_kind kind,
                           uint32_t rank);

/* Copy `text` into the record, its end cut off where it is too long. */
void report_set_text (struct report *report, const char *text);

/* Send what is queued, until the socket is full. Descriptors that were sent
 * are closed.
 *   true   nothing is left in the queue
 */
bool report_flush (struct outbox *box);

#endif
