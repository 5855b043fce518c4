#include "lines.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void mend (struct lines *lines)
{
    if (lines->is_cut)
        lines->bytes[lines->first] = lines->under;
    lines->is_cut = false;
}

bool lines_read (struct lines *lines, int fd)
{
    ssize_t n;

    mend (lines);
    memmove (lines->bytes, lines->bytes + lines->first, lines->count);
    lines->first = 0;
    if (lines->count >= RELAY_LINE_BYTES)
        return false;
    n = read (fd, lines->bytes + lines->count, RELAY_LINE_BYTES);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (n <= 0)
        return false;
    lines->count += (size_t) n;
    return true;
}

char *lines_next (struct lines *lines, size_t *lengthp)
{
    char *line, *end;

    mend (lines);
    line = lines->bytes + lines->first;
    if (!(end = memchr (line, '\n', lines->count)))
        return NULL;
    *lengthp = (size_t) (end + 1 - line);
    lines->first += *lengthp;
    lines->count -= *lengthp;
    lines->under = lines->bytes[lines->first];
    lines->bytes[lines->first] = '\0';
    lines->is_cut = true;
    return line;
}

void lines_write (int fd, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t done = write (fd, text, n);

        if (done < 0 && errno != EINTR)
            return;
        if (done > 0) {
            text += done;
            n -= (size_t) done;
        }
    }
}
