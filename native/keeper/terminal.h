/* terminal.h - the terminal of a rank that has one.
 *
 * The rank's three streams are a pseudo-terminal, which it has as its
 * controlling terminal. The PCT has pipes as for every rank: the keeper
 * carries the bytes between these and the other end of the terminal. So no
 * process of the job shares an open file description with the PCT.
 */
#ifndef YOD_KEEPER_TERMINAL_H
#define YOD_KEEPER_TERMINAL_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERMINAL_BYTES 4096             /* carried at a time, each way */

struct carried {
    char bytes[TERMINAL_BYTES];
    size_t size, written;
};

struct terminal {
    int ours;                           /* the keeper's end; -1: there is none */
    int theirs;                         /* the rank's, open here until it has ended */
    int input;                          /* the pipe of its input; -1: has ended */
    int output;                         /* of its output; -1: nobody reads it */
    size_t index;                       /* of the rank */
    struct carried in, out;
};

enum { TERMINAL_OURS, TERMINAL_INPUT, TERMINAL_OUTPUT, TERMINAL_FDS };

/* No terminal. */
void terminal_clear (struct terminal *t);

/* Make one, of a size: rows, and columns times 65536.
 *   false   errno says why there is none
 */
bool terminal_open (struct terminal *t, uint32_t window);

/* In the rank, the leader of a new session: make it the controlling one. */
bool terminal_take (int theirs);

/* Its size has changed. */
void terminal_resize (struct terminal *t, uint32_t window);

/* The rank has ended. Others may have the terminal still. */
void terminal_end (struct terminal *t);

/* What to wait for, and then what to do about it. */
void terminal_poll (const struct terminal *t, struct pollfd fds[TERMINAL_FDS]);
void terminal_carry (struct terminal *t, const struct pollfd fds[TERMINAL_FDS]);

/* No process has it any more: carry what is left of its output. A reader who
 * takes nothing is waited for, for `wait_ms` at most. */
void terminal_finish (struct terminal *t, int wait_ms);

#endif
