/* input.h - standard input of the client, read only as far as it was allowed.
 *
 * A terminal is not read in the background: that would stop the client
 * (SIGTTIN). What was read goes to the server before more is read.
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
    bool is_paused;                     /* until the client is continued */
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

/* Whether to wait for input. */
bool input_wants (const struct input *input);

/* Read once, and make a packet of what came. */
void input_read (struct input *input);

/* Send the packet that waits.
 *   true   none waits any more, or the server is gone
 */
bool input_flush (struct input *input, int socket);

#endif
