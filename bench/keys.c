/* keys - one rank of a key exchange by PMI-1: no MPI library's work is in the figures.
 *
 *     keys BYTES
 *
 * Every rank puts BYTES under keys of its own, meets the others in a barrier, and gets
 * what every other has put. Values are as long as the server accepts. A barrier before
 * the puts makes all start together; one after the exchange keeps the gets of some ranks
 * from taking the processor while others still leave the exchange.
 *
 * Rank r prints "r ENTERED LEFT BEGAN GOT PUTS GETS": nanoseconds of the clock that all
 * processes of a host share when it sends barrier_in, has read barrier_out, begins to
 * get, and has got the last value; and how many puts and gets that took. Exit status 1 on a wrong answer.
 */

#define _GNU_SOURCE
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 8192 };

static FILE *server;
static int sock;
static char reply[LINE];

static void fail (const char *what)
{
    fprintf (stderr, "keys: %s: %s\n", what, reply);
    exit (1);
}

static void tell (const char *line)
{
    size_t length = strlen (line), done = 0;
    while (done < length) {
        ssize_t count = write (sock, line + done, length - done);
        if (count <= 0)
            fail ("write");
        done += (size_t) count;
    }
}

/* The server's answer to a line. */
static const char *ask (const char *line, const char *wanted)
{
    tell (line);
    if (fgets (reply, sizeof reply, server) == NULL || strstr (reply, wanted) == NULL)
        fail (wanted);
    return reply;
}

/* The value behind "name=" in the last answer. */
static const char *field (const char *name)
{
    char *found = strstr (reply, name);
    if (found == NULL)
        fail (name);
    found += strlen (name);
    found[strcspn (found, " \n")] = 0;
    return found;
}

static int number_in (const char *name)
{
    const char *text = getenv (name);
    return text == NULL ? -1 : atoi (text);
}

static void join (void)
{
    char *port = getenv ("PMI_PORT"), line[256];
    if (port == NULL) {
        sock = number_in ("PMI_FD");
    } else {
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
        char *host = strdup (port), *colon = strrchr (host, ':');
        *colon = 0;
        if (getaddrinfo (host, colon + 1, &hints, &found) != 0)
            fail (port);
        sock = socket (found->ai_family, SOCK_STREAM, 0);
        if (connect (sock, found->ai_addr, found->ai_addrlen) != 0)
            fail ("connect");
        free (host);
    }
    server = fdopen (dup (sock), "r");
    if (port != NULL) {
        snprintf (line, sizeof line, "cmd=initack pmiid=%d\n", number_in ("PMI_ID"));
        ask (line, "cmd=initack");
        for (int rest = 0; rest < 3; rest++)
            if (fgets (reply, sizeof reply, server) == NULL)
                fail ("initack");
    }
    ask ("cmd=init pmi_version=1 pmi_subversion=1\n", "rc=0");
}

static long long now (void)
{
    struct timespec time;
    clock_gettime (CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int smaller (int one, int other)
{
    return one < other ? one : other;
}

int main (int argc, char **argv)
{
    int bytes = argc > 1 ? atoi (argv[1]) : 4096, rank, size, largest, puts = 0, gets = 0;
    char space[300], line[LINE], value[LINE];
    long long entered, left, began, got;

    join ();
    rank = number_in ("PMI_RANK");
    size = number_in ("PMI_SIZE");
    ask ("cmd=get_maxes\n", "cmd=maxes");
    largest = smaller (atoi (field ("vallen_max=")) - 1, LINE / 2);
    ask ("cmd=get_my_kvsname\n", "cmd=my_kvsname");
    snprintf (space, sizeof space, "%s", field ("kvsname="));
    ask ("cmd=barrier_in\n", "cmd=barrier_out");

    for (int rest = bytes; rest > 0; puts++) {
        int length = smaller (rest, largest);
        memset (value, 'a' + rank % 26, (size_t) length);
        value[length] = 0;
        snprintf (line, sizeof line, "cmd=put kvsname=%.256s key=r%d-%d value=%.*s\n", space, rank,
                  puts, length, value);
        ask (line, "rc=0");
        rest -= length;
    }
    entered = now ();
    ask ("cmd=barrier_in\n", "cmd=barrier_out");
    left = now ();
    ask ("cmd=barrier_in\n", "cmd=barrier_out");
    began = now ();

    for (int other = 0; other < size; other++) {
        int total = 0;
        for (int part = 0; part < puts && other != rank; part++, gets++) {
            snprintf (line, sizeof line, "cmd=get kvsname=%.256s key=r%d-%d\n", space, other, part);
            ask (line, "rc=0");
            const char *text = field ("value=");
            if (text[0] != 'a' + other % 26)
                fail ("value");
            total += (int) strlen (text);
        }
        if (other != rank && total != bytes)
            fail ("length");
    }
    got = now ();
    ask ("cmd=barrier_in\n", "cmd=barrier_out");
    printf ("%d %lld %lld %lld %lld %d %d\n", rank, entered, left, began, got, puts, gets);
    fflush (stdout);
    ask ("cmd=finalize\n", "cmd=finalize_ack");
    return 0;
}
