/* input.h - standard input of the client, read only as far as it was allowed.
 *
 * A terminal is not read in the background: that would stop the client
 * (SIGTTIN). A shell's `fg` tells a job that runs nothing, so while the client
 * is there it looks at each line that is typed whose the terminal is now
 * (yod/host/foreground.py). What was read goes to the server before more is read.
 */
#ifndef YOD_CLIENT_INPUT_H
#define YOD_CLIENT_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

struct input {
    int fd;
    bool is_open;                       /* it was asked for */
    bool is_over;                       /* its end was read */
    bool is_socket;
    bool is_paused;                     /* in the background of a terminal */
    int edges;                          /* meanwhile: readable when a line was
                                           typed; -1: no room for it */
    int64_t look_at;                    /* when to look whose the terminal is,
                                           by clock_ms; 0: when it is readable */
    uint64_t allowed;                   /* bytes */
    bool is_waiting;                    /* a packet for the server */
    struct wire_head head;
    size_t size;                        /* of its data */
    char data[WIRE_DATA_MAX];
};

/* The server allows this many bytes more. */
void input_allow (struct input *input, uint32_t bytes);

/* The client may be in the foreground now. */
void input_resume (struct input *input);

/* Read nothing any more: the user has left. */
void input_leave (struct input *input);

/* What to wait for until it is readable.
 *   a descriptor; -1: no input is wanted
 */
int input_fd (const struct input *input);

/* Whether `look_at` has come. */
bool input_is_due (const struct input *input, int64_t now);

/* It is readable, or due: read once, and make a packet of what came. */
void input_read (struct input *input, int64_t now);

/* Send the packet that waits.
 *   true   none waits any more, or the server is gone
 */
bool input_flush (struct input *input, int socket);

#endif
