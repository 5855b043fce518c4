/*
 * A server of a study that yod-ensemble runs: docs/ensemble.md. Nothing is linked to.
 *
 *     struct yod_ensemble server;
 *     struct yod_ensemble_update update;
 *
 *     if (yod_ensemble_open(&server) != 0)
 *         return 1;
 *     yod_ensemble_submit(&server, 0, 10);
 *     while (ended < 10 && yod_ensemble_poll(&server, -1, &update) >= 0)
 *         ended += update.state >= YOD_ENSEMBLE_TERMINATED;
 *     yod_ensemble_finish(&server);
 *     yod_ensemble_close(&server);
 *
 * Calls return 0, or -1 with errno: the launcher is gone, or does not want this server any more
 * (ECONNREFUSED), and the server has to end. A server that computes for long calls
 * yod_ensemble_poll(&server, 0, &update) now and then, or it is taken for dead. One thread at a
 * time uses a server.
 */
#ifndef YOD_ENSEMBLE_H
#define YOD_ENSEMBLE_H

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How a client is. */
enum yod_ensemble_state {
    YOD_ENSEMBLE_WAITING = 0,
    YOD_ENSEMBLE_RUNNING = 1,
    YOD_ENSEMBLE_TERMINATED = 2, /* it has ended well */
    YOD_ENSEMBLE_FAILED = 3,
    YOD_ENSEMBLE_ERROR = 4 /* it never ran */
};

/* A client's new state. */
struct yod_ensemble_update {
    uint32_t client;
    enum yod_ensemble_state state;
};

/* The connection to the launcher. */
struct yod_ensemble {
    int fd;
    uint32_t epoch;      /* a later server has a greater one */
    int goes_on;         /* it replaces another one, and may go on from a checkpoint */
    unsigned char in[512];
    size_t in_count;
};

/* Send all of it. */
static inline int yod_ensemble_send_(int fd, const unsigned char *data, size_t count)
{
    while (count > 0) {
        ssize_t sent = send(fd, data, count, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return -1;
        data += sent;
        count -= (size_t)sent;
    }
    return 0;
}

static inline void yod_ensemble_put_(unsigned char *at, uint32_t number)
{
    number = htonl(number);
    memcpy(at, &number, sizeof(number));
}

static inline uint32_t yod_ensemble_get_(const unsigned char *at)
{
    uint32_t number;

    memcpy(&number, at, sizeof(number));
    return ntohl(number);
}

/* A frame: u32 length, u8 version, u8 type, u32 epoch, payload. */
static inline int yod_ensemble_say_(struct yod_ensemble *server, unsigned char type,
                                    const void *payload, size_t count)
{
    unsigned char frame[1024];

    if (count > sizeof(frame) - 10) {
        errno = EMSGSIZE;
        return -1;
    }
    yod_ensemble_put_(frame, (uint32_t)(6 + count));
    frame[4] = 1;
    frame[5] = type;
    yod_ensemble_put_(frame + 6, server->epoch);
    if (count > 0)
        memcpy(frame + 10, payload, count);
    return yod_ensemble_send_(server->fd, frame, 10 + count);
}

/* Connect to the launcher that has started this process. */
static inline int yod_ensemble_open(struct yod_ensemble *server)
{
    const char *host = getenv("MELISSA_LAUNCHER_HOST"), *port = getenv("MELISSA_LAUNCHER_PORT");
    const char *protocol = getenv("MELISSA_LAUNCHER_PROTOCOL");
    const char *token = getenv("YOD_ENSEMBLE_TOKEN"), *epoch = getenv("YOD_ENSEMBLE_EPOCH");
    const char *goes_on = getenv("YOD_ENSEMBLE_FROM_CHECKPOINT");
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found, *each;
    int kind = protocol != NULL && strcmp(protocol, "SCTP") == 0 ? IPPROTO_SCTP : IPPROTO_TCP;

    memset(server, 0, sizeof(*server));
    server->fd = -1;
    if (host == NULL || port == NULL || token == NULL || epoch == NULL) {
        errno = EINVAL;
        return -1;
    }
    server->epoch = (uint32_t)strtoul(epoch, NULL, 10);
    server->goes_on = goes_on != NULL && strcmp(goes_on, "1") == 0;
    if (getaddrinfo(host, port, &hints, &found) != 0) {
        errno = EHOSTUNREACH;
        return -1;
    }
    for (each = found; each != NULL && server->fd < 0; each = each->ai_next) {
        server->fd = socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, kind);
        if (server->fd >= 0 && connect(server->fd, each->ai_addr, each->ai_addrlen) != 0) {
            int why = errno;

            close(server->fd);
            server->fd = -1;
            errno = why;
        }
    }
    freeaddrinfo(found);
    if (server->fd < 0)
        return -1;
    return yod_ensemble_say_(server, 1, token, strlen(token));
}

/* From now on a client job has so many simulations. */
static inline int yod_ensemble_group_size(struct yod_ensemble *server, uint32_t size)
{
    unsigned char payload[4];

    yod_ensemble_put_(payload, size);
    return yod_ensemble_say_(server, 4, payload, sizeof(payload));
}

/* Ask for clients with these ids in a row; an id may be used again after its end. */
static inline int yod_ensemble_submit(struct yod_ensemble *server, uint32_t first, uint32_t count)
{
    unsigned char payload[8];

    yod_ensemble_put_(payload, first);
    yod_ensemble_put_(payload + 4, count);
    return yod_ensemble_say_(server, 5, payload, sizeof(payload));
}

/* Have a client ended; its end is told. */
static inline int yod_ensemble_cancel(struct yod_ensemble *server, uint32_t client)
{
    unsigned char payload[4];

    yod_ensemble_put_(payload, client);
    return yod_ensemble_say_(server, 6, payload, sizeof(payload));
}

/* Clients that are asked for from now on have NAME=value in their environment. */
static inline int yod_ensemble_variable(struct yod_ensemble *server, const char *name_and_value)
{
    return yod_ensemble_say_(server, 9, name_and_value, strlen(name_and_value));
}

/* The study is complete: clients that are left are cancelled, and this server ends. */
static inline int yod_ensemble_finish(struct yod_ensemble *server)
{
    return yod_ensemble_say_(server, 7, NULL, 0);
}

/* Leave. A server that has not finished is replaced by another one. */
static inline void yod_ensemble_close(struct yod_ensemble *server)
{
    close(server->fd);
    server->fd = -1;
}

/* Take one frame out of what has come: 1 an update, 0 something else, -1 the end, -2 none. */
static inline int yod_ensemble_take_(struct yod_ensemble *server,
                                     struct yod_ensemble_update *update)
{
    const unsigned char *in = server->in;
    size_t length;
    int result = 0;

    if (server->in_count < 10)
        return -2;
    length = yod_ensemble_get_(in);
    if (length < 6 || length > sizeof(server->in) - 4 || in[4] != 1) {
        errno = EPROTO;
        return -1;
    }
    if (server->in_count < 4 + length)
        return -2;
    if (in[5] == 2) { /* refused */
        errno = ECONNREFUSED;
        return -1;
    }
    if (in[5] == 3 && yod_ensemble_say_(server, 3, NULL, 0) != 0) /* ping */
        return -1;
    if (in[5] == 8 && length == 11) {
        update->client = yod_ensemble_get_(in + 10);
        update->state = (enum yod_ensemble_state)in[14];
        result = 1;
    }
    server->in_count -= 4 + length;
    memmove(server->in, server->in + 4 + length, server->in_count);
    return result;
}

/* A client's new state: 1; 0: none has come within timeout_ms (-1: wait for ever); -1 with errno. */
static inline int yod_ensemble_poll(struct yod_ensemble *server, int timeout_ms,
                                    struct yod_ensemble_update *update)
{
    for (;;) {
        struct pollfd asked = {.fd = server->fd, .events = POLLIN};
        int found = yod_ensemble_take_(server, update), ready;
        ssize_t count;

        if (found == 1 || found == -1)
            return found;
        if (found == 0)
            continue;
        ready = poll(&asked, 1, timeout_ms);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return ready;
        count = recv(server->fd, server->in + server->in_count,
                     sizeof(server->in) - server->in_count, 0);
        if (count < 0 && errno == EINTR)
            continue;
        if (count == 0)
            errno = ECONNRESET;
        if (count <= 0)
            return -1;
        server->in_count += (size_t)count;
    }
}

#endif
