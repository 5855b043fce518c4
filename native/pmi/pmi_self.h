/* pmi_self.h - this process's place in its job, and its launcher.
 *
 * One object of the process. All parts of the library read it; PMI_Init fills
 * it in.
 */
#ifndef PMI_SELF_H
#define PMI_SELF_H

#include <stdbool.h>
#include <stddef.h>

#include "pmi_line.h"

#define PMI_NAME_MAX_BYTES 1024
#define PMI_KEY_MAX_BYTES 1024
#define PMI_VALUE_MAX_BYTES 8192 /* with name and key less than a line */
#define PMI_NUMBER_MAX 99999999

struct pmi_pair;

struct pmi_self {
    bool has_joined, is_alone, is_spawned;
    int rank, size;
    int name_max, key_max, value_max; /* bytes, with the NUL */
    struct pmi_line line;
    struct pmi_pair *pairs; /* is_alone */
    char name[PMI_NAME_MAX_BYTES]; /* is_alone */
};

extern struct pmi_self pmi_self;

/* Send a request and take its answer, a line whose command is `answer`. NULL:
 * the conversation is over. */
__attribute__ ((format (printf, 2, 3))) const char *
pmi_ask (const char *answer, const char *format, ...);

/* PMI_SUCCESS or PMI_FAIL of a request whose answer is whether it worked: by
 * `rc`, by older servers' `info`, or by there being an answer at all. `tail`
 * as for pmi_line_word. */
int pmi_result_of (const char *line, const char *tail);

/* PMI_SUCCESS or PMI_FAIL of a request whose answer is a number. */
int pmi_number_of (const char *line, const char *name, int min, int *value);

/* A variable of the environment that is a number from 0. */
bool pmi_environment_number (const char *name, int *value);

/* Copy a text with its NUL: PMI_SUCCESS; PMI_ERR_INVALID_LENGTH, and `to` is
 * empty. */
int pmi_copy_out (const char *found, size_t length, char *to, size_t room);

/* Give a number that is known since PMI_Init. */
int pmi_give (int *result, int value);

#endif
