/* relay.c - a caller on another host. */
#include "relay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROOM_BYTES (1u << 21)           /* of one way; a packet is shorter */
#define PACKET_BYTES (1u << 20)
#define LENGTH_BYTES sizeof (uint32_t)
#define KEY_BYTES 128

/* Bytes on their way, of which the first `begin` have gone. */
struct way {
    char *bytes;
    size_t begin, end;
};

static int dial (const char *address)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    const char *colon = strrchr (address, ':');
    char host[INET_ADDRSTRLEN] = "";
    int fd, on = 1;

    errno = EINVAL;
    if (!colon || (size_t) (colon - address) >= sizeof (host))
        return -1;
    memcpy (host, address, (size_t) (colon - address));
    at.sin_port = htons ((uint16_t) atoi (colon + 1));
    if (inet_pton (AF_INET, host, &at.sin_addr) != 1)
        return -1;
    if ((fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0)
        return -1;
    if (connect (fd, (struct sockaddr *) &at, sizeof (at)) != 0) {
        close (fd);
        return -1;
    }
    setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof (on));
    setsockopt (fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof (on));
    return fd;
}

static bool write_all (int fd, const char *from, size_t n)
{
    while (n > 0) {
        ssize_t put = send (fd, from, n, MSG_NOSIGNAL);

        if (put < 0 && errno != EINTR)
            return false;
        if (put > 0) {
            from += put;
            n -= (size_t) put;
        }
    }
    return true;
}

int relay_connect (const char *address, const char *key_file)
{
    const char *name = getenv ("YOD_NODE_NAME"), *node = getenv ("YOD_NODE");
    char key[KEY_BYTES], hello[KEY_BYTES + 512];
    int file = open (key_file, O_RDONLY | O_CLOEXEC), fd, n;
    ssize_t size;

    if (file < 0)
        return -1;
    size = read (file, key, sizeof (key) - 1);
    close (file);
    if (size <= 0 || (fd = dial (address)) < 0)
        return -1;
    key[size] = '\0';
    n = snprintf (hello + LENGTH_BYTES, sizeof (hello) - LENGTH_BYTES,
                  "%s %s %s", key, node ? node : "0", name ? name : "");
    memcpy (hello, &(uint32_t) { (uint32_t) n }, LENGTH_BYTES);
    if (!write_all (fd, hello, LENGTH_BYTES + (size_t) n)) {
        close (fd);
        return -1;
    }
    return fd;
}

static size_t room (const struct way *way)
{
    return ROOM_BYTES - way->end;
}

static void make_room (struct way *way)
{
    memmove (way->bytes, way->bytes + way->begin, way->end - way->begin);
    way->end -= way->begin;
    way->begin = 0;
}

/* Whole packets, as far as the starter takes them. False: it has gone, or the
 * caller has sent nonsense. */
static bool give_orders (struct way *orders, int pair)
{
    uint32_t size;

    while (orders->end - orders->begin >= LENGTH_BYTES) {
        memcpy (&size, orders->bytes + orders->begin, LENGTH_BYTES);
        if (size == 0 || size > PACKET_BYTES)
            return false;
        if (orders->end - orders->begin < LENGTH_BYTES + size)
            break;
        if (send (pair, orders->bytes + orders->begin + LENGTH_BYTES, size,
                  MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            return errno == EAGAIN || errno == EINTR;
        orders->begin += LENGTH_BYTES + size;
    }
    return true;
}

static bool has_whole_order (const struct way *orders)
{
    uint32_t size;

    if (orders->end - orders->begin < LENGTH_BYTES)
        return false;
    memcpy (&size, orders->bytes + orders->begin, LENGTH_BYTES);
    return orders->end - orders->begin >= LENGTH_BYTES + size;
}

static bool take_bytes (struct way *orders, int connection)
{
    ssize_t n;

    make_room (orders);
    n = recv (connection, orders->bytes + orders->end, room (orders),
              MSG_DONTWAIT);
    if (n > 0)
        orders->end += (size_t) n;
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static bool take_report (struct way *reports, int pair)
{
    char *at;
    ssize_t n;

    make_room (reports);
    at = reports->bytes + reports->end;
    n = recv (pair, at + LENGTH_BYTES, room (reports) - LENGTH_BYTES,
              MSG_DONTWAIT);
    if (n > 0) {
        memcpy (at, &(uint32_t) { (uint32_t) n }, LENGTH_BYTES);
        reports->end += LENGTH_BYTES + (size_t) n;
    }
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static bool give_bytes (struct way *reports, int connection)
{
    ssize_t n = 0;

    if (reports->end > reports->begin)
        n = send (connection, reports->bytes + reports->begin,
                  reports->end - reports->begin, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        reports->begin += (size_t) n;
    return n >= 0 || errno == EAGAIN || errno == EINTR;
}

void relay_run (int connection, int pair)
{
    struct way orders = { .bytes = malloc (ROOM_BYTES) };
    struct way reports = { .bytes = malloc (ROOM_BYTES) };
    bool is_open = orders.bytes && reports.bytes;

    while (is_open) {
        bool waits = has_whole_order (&orders);
        struct pollfd ends[2] = { { .fd = connection }, { .fd = pair } };

        if (!waits)
            ends[0].events = POLLIN;
        if (reports.end > reports.begin)
            ends[0].events = (short) (ends[0].events | POLLOUT);
        if (reports.end - reports.begin < ROOM_BYTES / 2)
            ends[1].events = POLLIN;
        if (waits)
            ends[1].events = (short) (ends[1].events | POLLOUT);
        if (poll (ends, 2, -1) < 0 && errno != EINTR)
            break;
        if (ends[0].revents & (POLLIN | POLLHUP | POLLERR))
            is_open = take_bytes (&orders, connection);
        if (is_open)
            is_open = give_orders (&orders, pair);
        if (is_open && ends[1].revents & (POLLIN | POLLHUP | POLLERR))
            is_open = take_report (&reports, pair);
        if (is_open)
            is_open = give_bytes (&reports, connection);
    }
    free (orders.bytes);
    free (reports.bytes);
    close (pair);
    close (connection);
}
