#include "pmi_self.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmi.h"

struct pmi_self pmi_self;

const char *pmi_ask (const char *answer, const char *format, ...)
{
    char request[PMI_LINE_BYTES];
    const char *line;
    va_list values;
    int length;

    va_start (values, format);
    length = vsnprintf (request, sizeof (request), format, values);
    va_end (values);
    if (length < 0 || (size_t)length >= sizeof (request)
        || !pmi_line_send (&pmi_self.line, request, (size_t)length)
        || !(line = pmi_line_receive (&pmi_self.line)))
        return NULL;
    if (pmi_line_is (line, answer))
        return line;
    pmi_line_close (&pmi_self.line);
    return NULL;
}

int pmi_result_of (const char *line, const char *tail)
{
    size_t length;
    const char *word;

    if (!line)
        return PMI_FAIL;
    if ((word = pmi_line_word (line, "rc", tail, &length)))
        return length == 1 && *word == '0' ? PMI_SUCCESS : PMI_FAIL;
    if ((word = pmi_line_word (line, "info", tail, &length)))
        return length == 2 && memcmp (word, "ok", 2) == 0 ? PMI_SUCCESS
                                                          : PMI_FAIL;
    return PMI_SUCCESS;
}

int pmi_number_of (const char *line, const char *name, int min, int *value)
{
    return line && pmi_line_number (line, name, min, PMI_NUMBER_MAX, value)
               ? PMI_SUCCESS
               : PMI_FAIL;
}

bool pmi_environment_number (const char *name, int *value)
{
    const char *text = getenv (name);

    return text && pmi_number (text, strlen (text), 0, PMI_NUMBER_MAX, value);
}

int pmi_copy_out (const char *found, size_t length, char *to, size_t room)
{
    if (room)
        *to = 0;
    if (length >= room)
        return PMI_ERR_INVALID_LENGTH;
    memcpy (to, found, length);
    to[length] = 0;
    return PMI_SUCCESS;
}

int pmi_give (int *result, int value)
{
    if (!pmi_self.has_joined)
        return PMI_ERR_INIT;
    if (!result)
        return PMI_ERR_INVALID_ARG;
    *result = value;
    return PMI_SUCCESS;
}
