/* output.h - standard output or error of the client.
 *
 * A slow reader never blocks the client. The open file description is shared
 * with the process that started yod, so it is not made non-blocking: a pipe or
 * a terminal is opened again, as a description of our own. What cannot be (a
 * terminal of another user) is asked whether it is writable, and then given no
 * more than a pipe takes without blocking.
 *
 * The server may ask for a stream, to write to it by itself. It gets a pipe
 * without a name, or is told that it is /dev/null: with these a description of
 * its own does as well as ours, and cannot be made to wait for a disk.
 */
#ifndef YOD_CLIENT_OUTPUT_H
#define YOD_CLIENT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "outbox.h"

#define OUTPUT_LINE_MAX 512             /* of the client itself, or the server */
#define OUTPUT_ROOM (WIRE_OUTPUT_WINDOW + OUTPUT_LINE_MAX)

enum output_how {
    OUTPUT_UNKNOWN,                     /* nothing has been written yet */
    OUTPUT_OWN,                         /* a description of our own */
    OUTPUT_SOCKET,
    OUTPUT_FILE,                        /* never waits long */
    OUTPUT_IN_PARTS,
};

enum output_give {
    GIVE_UNASKED,
    GIVE_ASKED,                         /* something is still to be written */
    GIVE_ANSWERED,
};

struct output {
    uint32_t number;                    /* 1 or 2 */
    int fd;
    enum output_how how;
    enum output_give give;
    bool is_broken;                     /* nothing is written any more */
    int problem;                        /* that broke it, as errno; 0: none */
    char last;                          /* byte that was taken; 0: none */
    size_t first, count;
    char room[OUTPUT_ROOM];             /* a ring */
};

void output_open (struct output *output, uint32_t number);

/* Take bytes of the server's: write what goes now, keep the rest. The box gets
 * the credit, and OUTPUT_FAILED when writing fails.
 *   false   there are more than the window; nothing was taken
 */
bool output_take (struct output *output, const char *data, size_t size,
                  struct outbox *box);

/* Take a line of the client's own, at the start of a line. */
void output_say (struct output *output, const char *line, struct outbox *box);

/* Write what was kept, as far as it goes now. */
void output_drain (struct output *output, struct outbox *box);

/* The server asks for the stream. The box gets GIVEN once nothing is kept; not
 * at all if the user leaves the stream before.
 *   false   it has asked before
 */
bool output_give (struct output *output, struct outbox *box);

/* Write nothing any more, unless it is a regular file, and drop what was kept:
 * the user has left.
 *   true   nothing is written any more
 */
bool output_leave (struct output *output, struct outbox *box);

/* Drop what was kept. */
void output_drop (struct output *output);

#endif
