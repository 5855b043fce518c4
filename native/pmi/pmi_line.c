#include "pmi_line.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void begin (struct pmi_line *line, int fd, bool is_ours)
{
    line->fd = fd;
    line->is_ours = is_ours;
    line->used = line->taken = 0;
}

bool pmi_line_use (struct pmi_line *line, int fd)
{
    struct stat status;

    if (fstat (fd, &status) != 0 || !S_ISSOCK (status.st_mode))
        return false;
    begin (line, fd, false);
    return true;
}

static int dial_one (const struct addrinfo *at)
{
    int fd = socket (at->ai_family, at->ai_socktype | SOCK_CLOEXEC, 0);
    int one = 1;

    if (fd < 0)
        return -1;
    if (connect (fd, at->ai_addr, at->ai_addrlen) != 0) {
        close (fd);
        return -1;
    }
    setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof (one));
    return fd;
}

bool pmi_line_dial (struct pmi_line *line, const char *address)
{
    struct addrinfo wanted = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    const char *colon = strrchr (address, ':');
    char host[256];
    size_t length;
    int fd = -1;

    if (!colon || colon == address)
        return false;
    length = (size_t)(colon - address);
    if (length >= sizeof (host))
        return false;
    memcpy (host, address, length);
    host[length] = 0;
    if (getaddrinfo (host, colon + 1, &wanted, &found) != 0)
        return false;
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next)
        fd = dial_one (at);
    freeaddrinfo (found);
    begin (line, fd, true);
    return fd >= 0;
}

void pmi_line_close (struct pmi_line *line)
{
    if (line->fd >= 0 && line->is_ours)
        close (line->fd);
    line->fd = -1;
}

bool pmi_line_send (struct pmi_line *line, const char *text, size_t length)
{
    while (line->fd >= 0 && length) {
        ssize_t n = send (line->fd, text, length, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            pmi_line_close (line);
            return false;
        }
        text += n;
        length -= (size_t)n;
    }
    return line->fd >= 0;
}

/* Receive more bytes behind those that are there. */
static bool fill (struct pmi_line *line)
{
    ssize_t n;

    do
        n = recv (line->fd, line->in + line->used,
                  PMI_LINE_BYTES - line->used, 0);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return false;
    line->used += (size_t)n;
    return true;
}

const char *pmi_line_receive (struct pmi_line *line)
{
    char *end;
    size_t scanned = 0;

    if (line->fd < 0)
        return NULL;
    line->used -= line->taken;
    memmove (line->in, line->in + line->taken, line->used);
    line->taken = 0;
    while (!(end = memchr (line->in + scanned, '\n', line->used - scanned))) {
        scanned = line->used;
        if (line->used == PMI_LINE_BYTES || !fill (line)) {
            pmi_line_close (line);
            return NULL;
        }
    }
    *end = 0;
    line->taken = (size_t)(end - line->in) + 1;
    if (strlen (line->in) + 1 != line->taken) {
        pmi_line_close (line);
        return NULL;
    }
    return line->in;
}

bool pmi_line_is (const char *text, const char *command)
{
    size_t length = 0;
    const char *value = pmi_line_word (text, "cmd", NULL, &length);

    return value == text + 4 && length == strlen (command)
           && memcmp (value, command, length) == 0;
}

const char *pmi_line_word (const char *text, const char *name,
                           const char *tail, size_t *length)
{
    size_t wanted = strlen (name);

    for (;;) {
        size_t word;
        bool is_tail;

        text += strspn (text, " ");
        if (!*text)
            return NULL;
        word = strcspn (text, " =");
        is_tail = tail && text[word] == '=' && word == strlen (tail)
                  && memcmp (text, tail, word) == 0;
        *length = is_tail ? strlen (text + word + 1)
                          : strcspn (text + word, " ") - (text[word] == '=');
        if (text[word] == '=' && word == wanted
            && memcmp (text, name, word) == 0)
            return text + word + 1;
        if (is_tail)
            return NULL;
        text += strcspn (text, " ");
    }
}

bool pmi_number (const char *text, size_t length, long min, long max,
                 int *value)
{
    bool is_negative = length && *text == '-';
    long number = 0;
    size_t at = is_negative;

    if (at == length || length - at > 9)
        return false;
    for (; at < length; at++) {
        if (text[at] < '0' || text[at] > '9')
            return false;
        number = number * 10 + (text[at] - '0');
    }
    number = is_negative ? -number : number;
    *value = (int)number;
    return number >= min && number <= max;
}

bool pmi_line_number (const char *text, const char *name, long min, long max,
                      int *value)
{
    size_t length;
    const char *found = pmi_line_word (text, name, NULL, &length);

    return found && pmi_number (found, length, min, max, value);
}
