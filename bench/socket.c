/* socket - measures a bare socket, for bench/transport.py.
 *
 *     socket tcp|unix|shm spin|block ping SIZE COUNT
 *     socket tcp|unix     spin|block stream SIZE COUNT WINDOW
 *
 * ping: COUNT messages of SIZE bytes there and back; prints the nanoseconds of
 * half a round trip. stream: COUNT windows of WINDOW messages one way, each
 * message one send; an answer of 8 bytes to each window, awaited one window
 * later; prints the nanoseconds per message. With spin a side reads its socket
 * again and again without blocking. shm is a word in shared memory to spin on, or an
 * eventfd to block on. Both sides always use the same buffer.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "pair.h"

enum { ANSWER = 8, STAGING = 65536 };

struct words {
    _Alignas (128) _Atomic uint64_t word[2][16];
};

static struct pair pair;
static int sock;
static int flags; /* of send and recv */
static struct words *words;
static int bell[2];

/* ---- sockets ---- */

static void join_tcp (int listener, struct sockaddr_in *address)
{
    int one = 1;

    if (pair.rank) {
        sock = socket (AF_INET, SOCK_STREAM, 0);
        pair_need (connect (sock, (struct sockaddr *)address,
                            sizeof (*address)) == 0, "connect");
    } else {
        pair_need ((sock = accept (listener, NULL, NULL)) >= 0, "accept");
    }
    close (listener);
    setsockopt (sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof (one));
}

static void start_tcp (void)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl (INADDR_LOOPBACK),
    };
    socklen_t length = sizeof (address);
    int listener = socket (AF_INET, SOCK_STREAM, 0);

    pair_need (bind (listener, (struct sockaddr *)&address, length) == 0
                   && listen (listener, 1) == 0
                   && getsockname (listener, (struct sockaddr *)&address,
                                   &length) == 0, "listen");
    pair_start (&pair);
    join_tcp (listener, &address);
}

static void start_unix (void)
{
    int both[2];

    pair_need (socketpair (AF_UNIX, SOCK_STREAM, 0, both) == 0, "socketpair");
    pair_start (&pair);
    sock = both[pair.rank];
    close (both[!pair.rank]);
}

static bool is_later (ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void give (const uint8_t *data, size_t size)
{
    ssize_t n;

    while (size > 0) {
        n = send (sock, data, size, flags | MSG_NOSIGNAL);
        if (is_later (n))
            continue;
        pair_need (n > 0, "send");
        data += n;
        size -= (size_t)n;
    }
}

/* At most `size` bytes. */
static size_t take_some (uint8_t *data, size_t size)
{
    ssize_t n;

    do
        n = recv (sock, data, size, flags);
    while (is_later (n));
    pair_need (n > 0, "recv");
    return (size_t)n;
}

static void take (uint8_t *data, size_t size)
{
    for (size_t done = 0; done < size;)
        done += take_some (data + done, size - done);
}

/* ---- shared memory ---- */

static void start_shm (void)
{
    words = mmap (NULL, sizeof (*words), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pair_need (words != MAP_FAILED, "mmap");
    pair_need ((bell[0] = eventfd (0, 0)) >= 0
                   && (bell[1] = eventfd (0, 0)) >= 0, "eventfd");
    pair_start (&pair);
}

static void give_word (uint64_t number)
{
    uint64_t one = 1;

    atomic_store_explicit (&words->word[!pair.rank][0], number,
                           memory_order_release);
    if (!flags)
        pair_need (write (bell[!pair.rank], &one, 8) == 8, "eventfd");
}

static void take_word (uint64_t number)
{
    uint64_t rung;

    if (!flags)
        pair_need (read (bell[pair.rank], &rung, 8) == 8, "eventfd");
    while (atomic_load_explicit (&words->word[pair.rank][0],
                                 memory_order_acquire) != number)
        ;
}

/* ---- tests ---- */

static void give_message (uint8_t *data, size_t size, uint64_t number)
{
    if (words) {
        give_word (number);
        return;
    }
    pair_mark (data, number);
    give (data, size);
}

static void take_message (uint8_t *data, size_t size, uint64_t number)
{
    if (words) {
        take_word (number);
        return;
    }
    take (data, size);
    pair_check (data, number);
}

static double ping (size_t size, uint64_t count)
{
    uint8_t *out = pair_memory (size), *in = pair_memory (size);
    struct pair_clock clock;

    pair_meet (&pair);
    pair_clock_start (&clock, count);
    for (uint64_t i = 1; i <= count; i++) {
        if (pair.rank == 0)
            give_message (out, size, i);
        take_message (in, size, i);
        if (pair.rank == 1)
            give_message (out, size, i);
        pair_clock_step (&clock);
    }
    free (out);
    free (in);
    return pair_clock_read (&clock) / 2;
}

static void take_window (uint8_t *data, size_t size, uint64_t window)
{
    if (size >= STAGING) {
        while (window-- > 0)
            take (data, size);
        return;
    }
    for (size_t left = size * window; left > 0;)
        left -= take_some (data, left < STAGING ? left : STAGING);
}

static double stream (size_t size, uint64_t count, uint64_t window)
{
    uint8_t *data = pair_memory (size < STAGING ? STAGING : size);
    uint8_t answer[ANSWER] = { 0 };
    struct pair_clock clock;

    pair_meet (&pair);
    pair_clock_start (&clock, count);
    for (uint64_t i = 0; i < count; i++) {
        if (pair.rank == 0) {
            for (uint64_t k = 0; k < window; k++)
                give (data, size);
            if (i > 0)
                take (answer, ANSWER);
        } else {
            take_window (data, size, window);
            give (answer, ANSWER);
        }
        pair_clock_step (&clock);
    }
    if (pair.rank == 0)
        take (answer, ANSWER);
    free (data);
    return pair_clock_read (&clock) / (double)window;
}

int main (int argc, char **argv)
{
    uint64_t size, count;
    double taken;

    if (argc < 6)
        return 2;
    flags = strcmp (argv[2], "spin") == 0 ? MSG_DONTWAIT : 0;
    size = strtoull (argv[4], NULL, 10);
    count = strtoull (argv[5], NULL, 10);
    if (strcmp (argv[1], "tcp") == 0)
        start_tcp ();
    else if (strcmp (argv[1], "unix") == 0)
        start_unix ();
    else
        start_shm ();
    if (argc == 6)
        taken = ping (size, count);
    else
        taken = stream (size, count, strtoull (argv[6], NULL, 10));
    if (pair.rank == 0)
        printf ("%.1f\n", taken);
    return pair_end (&pair);
}
