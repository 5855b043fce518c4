/* pmi_line.h - a conversation with a PMI-1 server: one line each way.
 *
 * A line is words `name=value` separated by blanks. What a server sends is
 * bounded by PMI_LINE_BYTES and believed only as far as it can be read.
 */
#ifndef PMI_LINE_H
#define PMI_LINE_H

#include <stdbool.h>
#include <stddef.h>

#define PMI_LINE_BYTES 16384

struct pmi_line {
    int fd;       /* -1: closed */
    bool is_ours; /* to be closed */
    size_t used;  /* bytes of `in` */
    size_t taken; /* of these, the line that was read last */
    char in[PMI_LINE_BYTES + 1];
};

/* Talk over an inherited socket. False: the descriptor is no socket. */
bool pmi_line_use (struct pmi_line *line, int fd);

/* Connect to "host:port". False: nobody answers there. */
bool pmi_line_dial (struct pmi_line *line, const char *address);

void pmi_line_close (struct pmi_line *line);

/* Send a whole line with its end. False: it was not sent; closed then. */
bool pmi_line_send (struct pmi_line *line, const char *text, size_t length);

/* The next line, without its end; valid until the next call. NULL: there is
 * none, it is too long or has a zero byte; the conversation is closed then. */
const char *pmi_line_receive (struct pmi_line *line);

/* Whether the line's first word is `cmd=COMMAND`. */
bool pmi_line_is (const char *text, const char *command);

/* A word's value, to the next blank, and its length; NULL: no such word.
 * `tail` is the word whose value runs to the end of the line, or NULL. */
const char *pmi_line_word (const char *text, const char *name,
                           const char *tail, size_t *length);

/* A word that is a decimal number from `min` to `max`. */
bool pmi_line_number (const char *text, const char *name, long min, long max,
                      int *value);

/* The same of a whole string. */
bool pmi_number (const char *text, size_t length, long min, long max,
                 int *value);

#endif
