#include "serve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../keeper/clock.h"
#include "standin.h"
#include "wire.h"

#define PACKETS_A_TURN 16
#define FDS_MAX 3

struct packet {
    struct wire_head head;
    const char *data;                   /* its payload */
    size_t size;
    int fds[FDS_MAX];
    size_t n_fds;
};

static bool read_number (const struct packet *packet, uint32_t *number)
{
    if (packet->size < sizeof (*number))
        return false;
    memcpy (number, packet->data, sizeof (*number));
    return true;
}

/* --- one packet each: false if it breaks a rule -------------------------- */

static bool take_output (struct client *client, const struct packet *packet)
{
    uint32_t number = packet->head.value;

    if (number < 1 || number > 2 || packet->size == 0)
        return false;
    return output_take (&client->outputs[number - 1], packet->data,
                        packet->size, &client->box);
}

static bool take_start (struct client *client, struct packet *packet)
{
    size_t n_fds = packet->n_fds;
    uint32_t flags;

    if (packet->size != sizeof (flags) || !read_number (packet, &flags)
        || flags > START_PORTALS || n_fds != (flags ? 3 : 2))
        return false;
    packet->n_fds = 0;                  /* they are closed there */
    return keepers_start (&client->keepers, packet->head.value, packet->fds,
                          n_fds, &client->box);
}

static bool take_append (struct client *client, const struct packet *packet)
{
    const char *path = packet->data + sizeof (uint32_t), *nul;
    size_t rest, length;
    uint32_t flags;
    int problem;

    if (!read_number (packet, &flags) || flags > APPEND_FLAGS)
        return false;
    rest = packet->size - sizeof (flags);
    if (!(nul = memchr (path, 0, rest)))
        return false;
    length = (size_t) (nul - path);
    if (length == 0 || length >= WIRE_PATH_MAX)
        return false;
    if (append_data (&client->append, path, flags, nul + 1,
                     rest - length - 1, &problem))
        outbox_add_number (&client->box, CLIENT_APPENDED, packet->head.value,
                           (uint32_t) problem);
    return true;
}

static bool take_cold (struct client *client, const struct packet *packet)
{
    if (client->phase != PHASE_ASKED || packet->head.value > 1
        || packet->size > WIRE_TEXT_MAX)
        return false;
    if (packet->head.value == 0)
        snprintf (client->message, sizeof (client->message),
                  "the launch server (process %u) says: %.*s",
                  client->server, (int) packet->size, packet->data);
    client->phase = PHASE_COLD;
    return true;
}

static bool take_exit (struct client *client, const struct packet *packet)
{
    struct { int32_t status; uint32_t flags; } body;

    if (packet->head.value != 0 || packet->size != sizeof (body))
        return false;
    memcpy (&body, packet->data, sizeof (body));
    if (body.status < -64 || body.status > 255 || body.flags > EXIT_DROP)
        return false;
    if (body.flags & EXIT_DROP)
        for (int i = 0; i < 2; i++)
            output_drop (&client->outputs[i]);
    client->status = body.status;
    client->phase = PHASE_OVER;
    return true;
}

static bool take_give (struct client *client, const struct packet *packet)
{
    uint32_t number = packet->head.value;

    return number >= 1 && number <= 2 && packet->size == 0
           && output_give (&client->outputs[number - 1], &client->box);
}

static bool take_times (struct client *client, const struct packet *packet)
{
    uint32_t liveness_ms;

    if (packet->size != sizeof (liveness_ms)
        || !read_number (packet, &liveness_ms) || liveness_ms == 0)
        return false;
    client->signals.press_ms = packet->head.value;
    client->liveness_ms = liveness_ms;
    return true;
}

static bool take_leave (struct client *client, const struct packet *packet)
{
    uint32_t streams = 0;

    if (packet->head.value != 0 || packet->size >= STANDIN_WORD_ROOM
        || client->has_left)
        return false;
    client->has_left = true;
    for (uint32_t i = 0; i < 2; i++)
        if (output_leave (&client->outputs[i], &client->box))
            streams |= 1u << i;
    input_leave (&client->input);
    standin_end (client->stand_in, packet->data, packet->size);
    client->stand_in = -1;
    outbox_add (&client->box, CLIENT_LEFT, streams);
    return true;
}

/* Answered only when the client has been continued. */
static void suspend (struct client *client)
{
    outbox_flush (&client->box);
    signals_stop_self ();
    input_resume (&client->input);
    outbox_add (&client->box, CLIENT_SIGNAL, SIGCONT);
}

/* Messages that the server may send before it starts a launch. */
static bool is_early (uint32_t kind)
{
    return kind == SERVER_COLD || kind == SERVER_PONG || kind == SERVER_TIMES
           || kind == SERVER_SUSPEND;
}

static bool obey (struct client *client, struct packet *packet)
{
    bool is_zero = packet->head.value == 0, is_empty = packet->size == 0;

    if (packet->n_fds > 0 && packet->head.kind != SERVER_START)
        return false;
    if (client->phase == PHASE_ASKED && !is_early (packet->head.kind))
        client->phase = PHASE_RUNNING;
    switch ((enum server_kind) packet->head.kind) {
    case SERVER_OUTPUT:
        return take_output (client, packet);
    case SERVER_READ:
        input_allow (&client->input, packet->head.value);
        return !is_zero && is_empty;
    case SERVER_START:
        return take_start (client, packet);
    case SERVER_CONTINUE:
        keepers_continue (&client->keepers, packet->head.value);
        return !is_zero && is_empty;
    case SERVER_KILL_ORPHANS:
        return is_empty
               && keepers_kill_orphans (&client->keepers, packet->head.value,
                                        clock_ms ());
    case SERVER_APPEND:
        return take_append (client, packet);
    case SERVER_EXIT:
        return take_exit (client, packet);
    case SERVER_TIMES:
        return take_times (client, packet);
    case SERVER_LEAVE:
        return take_leave (client, packet);
    case SERVER_GIVE:
        return take_give (client, packet);
    case SERVER_SUSPEND:
        if (!is_zero || !is_empty)
            return false;
        suspend (client);
        return true;
    case SERVER_PONG:
        return is_zero && is_empty;
    case SERVER_COLD:
        return take_cold (client, packet);
    case SERVER_HELLO:
        return false;                   /* has come */
    }
    return false;
}

/* --- the socket ---------------------------------------------------------- */

static void take_fds (struct msghdr *message, struct packet *packet)
{
    struct cmsghdr *header = CMSG_FIRSTHDR (message); /* at most one */

    if (!header || header->cmsg_level != SOL_SOCKET
        || header->cmsg_type != SCM_RIGHTS)
        return;
    packet->n_fds = (header->cmsg_len - CMSG_LEN (0)) / sizeof (int);
    memcpy (packet->fds, CMSG_DATA (header), packet->n_fds * sizeof (int));
}

enum receipt { RECEIVED, NOTHING_YET, ENDED, BROKEN, NO_ROOM };

static enum receipt receive (int socket, char room[], struct packet *packet)
{
    union {
        char room[CMSG_SPACE (FDS_MAX * sizeof (int))];
        struct cmsghdr align;
    } control;
    struct iovec bytes = { .iov_base = room, .iov_len = WIRE_PACKET_MAX };
    struct msghdr message = {
        .msg_iov = &bytes,
        .msg_iovlen = 1,
        .msg_control = &control,
        /* Not all of the room: a fourth one would fit its padding. */
        .msg_controllen = CMSG_LEN (FDS_MAX * sizeof (int)),
    };
    ssize_t n;

    packet->n_fds = 0;
    do                  /* reset: it ended with a packet unread; its own follow */
        n = recvmsg (socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    if (n < 0 && (errno == EAGAIN || errno == ENOMEM || errno == ENOBUFS))
        return NOTHING_YET;
    if (n <= 0)                         /* no packet is empty */
        return ENDED;
    take_fds (&message, packet);
    if (n < (ssize_t) sizeof (packet->head) || message.msg_flags & MSG_TRUNC)
        return BROKEN;
    if (message.msg_flags & MSG_CTRUNC) /* or there were more than any has */
        return packet->n_fds < FDS_MAX ? NO_ROOM : BROKEN;
    memcpy (&packet->head, room, sizeof (packet->head));
    packet->data = room + sizeof (packet->head);
    packet->size = (size_t) n - sizeof (packet->head);
    return RECEIVED;
}

void serve_read (struct client *client)
{
    static char room[WIRE_PACKET_MAX];
    enum receipt receipt = RECEIVED;
    struct packet packet;

    for (int i = 0; i < PACKETS_A_TURN && receipt == RECEIVED; i++) {
        if (client->phase > PHASE_RUNNING || !outbox_has_room (&client->box))
            return;
        receipt = receive (client->socket, room, &packet);
        if (receipt == RECEIVED) {
            client->silent_ms = 0;
            client->has_asked = false;
            if (!obey (client, &packet))
                receipt = BROKEN;
        }
        for (size_t j = 0; j < packet.n_fds; j++)
            close (packet.fds[j]);
    }
    if (receipt == ENDED)
        client_lose (client, "has ended");
    else if (receipt == NO_ROOM)
        client_lose (client, "sent descriptors, and none are left "
                             "(ulimit -n)");
    else if (receipt == BROKEN)
        client_lose (client, "broke the protocol");
}
