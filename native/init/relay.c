#include "relay.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lines.h"

#define KEPT_BYTES (1 << 20)            /* of the lines that are said again */
#define ASK_NAME "cmd=get_my_kvsname\n"
#define NAME_BYTES 256                  /* of a space of keys */

struct relay {
    int rank, down, up;                 /* -1: closed */
    struct lines from_rank, from_server;
    char *kept;                         /* lines, as the rank has said them */
    size_t n_kept;
    char *asked;                        /* without an answer; NULL: none */
    char name[NAME_BYTES];              /* of its keys, as the rank knows it */
    char other[NAME_BYTES];             /* as the server does; "": the same */
    bool is_too_much;                   /* lines were not kept */
    bool has_left;                      /* the rank has hung up */
    bool is_anew;                       /* kept lines are being said */
    size_t said;                        /* of them, bytes */
    bool asks_name;                     /* the answer is our own question's */
};

static bool is (const char *line, const char *command)
{
    size_t n = strlen (command);

    return strncmp (line, "cmd=", 4) == 0 && strncmp (line + 4, command, n) == 0
           && (line[4 + n] == ' ' || line[4 + n] == '\n');
}

static bool changes (const char *line)
{
    static const char *const all[] = {
        "init", "put", "barrier_in", "publish_name", "unpublish_name", "finalize"
    };

    for (size_t i = 0; i < sizeof (all) / sizeof (all[0]); i++)
        if (is (line, all[i]))
            return true;
    return false;
}

static void say (int fd, const char *text)
{
    lines_write (fd, text, strlen (text));
}

/* Say a line of the rank's, with the name that the server has for its keys. */
static void say_up (const struct relay *r, const char *line, size_t n)
{
    char word[NAME_BYTES + 16];
    const char *at = NULL;
    int length;

    length = snprintf (word, sizeof (word), " kvsname=%s", r->name);
    if (*r->other && *r->name)
        at = memmem (line, n, word, (size_t) length);
    if (!at || (at[length] != ' ' && at[length] != '\n')) {
        lines_write (r->up, line, n);
        return;
    }
    lines_write (r->up, line, (size_t) (at - line));
    say (r->up, " kvsname=");
    say (r->up, r->other);
    at += length;
    lines_write (r->up, at, n - (size_t) (at - line));
}

static void keep (struct relay *r, const char *line, size_t n)
{
    char *more;

    if (r->is_too_much || r->n_kept + n > KEPT_BYTES
        || !(more = realloc (r->kept, r->n_kept + n))) {
        r->is_too_much = true;
        return;
    }
    r->kept = more;
    memcpy (r->kept + r->n_kept, line, n);
    r->n_kept += n;
}

static void learn (char *name, const char *line)
{
    const char *value = strstr (line, " kvsname=");

    if (value)
        snprintf (name, NAME_BYTES, "%.*s", (int) strcspn (value + 9, " \n"), value + 9);
}

/* --- a server that knows nothing of the rank ------------------------------ */

/* The next line is said when the one before has its answer. */
static void say_next (struct relay *r)
{
    const char *line = r->kept + r->said, *end;

    if (r->said < r->n_kept) {
        end = memchr (line, '\n', r->n_kept - r->said);
        say_up (r, line, (size_t) (end + 1 - line));
        r->said += (size_t) (end + 1 - line);
        return;
    }
    r->is_anew = false;
    if (r->asked)
        say_up (r, r->asked, strlen (r->asked));
    if (r->has_left)
        say (r->up, RELAY_GONE);
}

static void begin_anew (struct relay *r)
{
    say (r->up, RELAY_ANEW);
    r->is_anew = true;
    r->asks_name = false;
    r->said = 0;
    *r->other = '\0';
    if (r->is_too_much) {               /* the rank finds its server gone */
        r->n_kept = 0;
        free (r->asked);
        r->asked = NULL;
        shutdown (r->rank, SHUT_RDWR);
    }
    say_next (r);
}

static void answered_anew (struct relay *r, const char *line)
{
    if (is (line, "response_to_init") && *r->name) {
        say (r->up, ASK_NAME);
        r->asks_name = true;
        return;
    }
    if (r->asks_name) {
        r->asks_name = false;
        learn (r->other, line);
    }
    say_next (r);
}

/* --- lines ------------------------------------------------------------------ */

static void server_says (struct relay *r, const char *line, size_t n)
{
    if (strcmp (line, RELAY_ANEW) == 0) {
        begin_anew (r);
        return;
    }
    if (strcmp (line, RELAY_GONE) == 0) {
        shutdown (r->rank, SHUT_RDWR);
        return;
    }
    if (r->is_anew) {
        answered_anew (r, line);
        return;
    }
    if (r->asked && changes (r->asked))
        keep (r, r->asked, strlen (r->asked));
    free (r->asked);
    r->asked = NULL;
    if (is (line, "my_kvsname") && *r->name) {
        say (r->rank, "cmd=my_kvsname kvsname=");       /* as it knows it */
        say (r->rank, r->name);
        say (r->rank, "\n");
        return;
    }
    if (is (line, "my_kvsname"))
        learn (r->name, line);
    lines_write (r->rank, line, n);
}

static void rank_says (struct relay *r, const char *line, size_t n)
{
    free (r->asked);
    r->asked = strdup (line);
    if (!r->is_anew)
        say_up (r, line, n);
}

/* False: the other end has hung up, or says what no line is. */
static bool take (int fd, struct lines *lines, struct relay *r,
                  void (*says) (struct relay *, const char *, size_t))
{
    char *line;
    size_t n;

    if (!lines_read (lines, fd))
        return false;
    while ((line = lines_next (lines, &n)))
        says (r, line, n);
    return true;
}

void relay (int rank, int down, int up)
{
    static struct relay r;

    r.rank = rank;
    r.down = down;
    r.up = up;
    signal (SIGPIPE, SIG_IGN);
    for (;;) {
        struct pollfd fds[] = {
            { .fd = r.has_left ? -1 : r.rank, .events = POLLIN },
            { .fd = r.down, .events = POLLIN },
        };

        if (poll (fds, 2, -1) < 0)
            continue;
        if (fds[0].revents && !take (r.rank, &r.from_rank, &r, rank_says)) {
            r.has_left = true;
            if (!r.is_anew)
                say (r.up, RELAY_GONE);
        }
        if (fds[1].revents && !take (r.down, &r.from_server, &r, server_says))
            return;
    }
}
