#include "outbox.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static struct outbox_packet *at (struct outbox *box, size_t index)
{
    return &box->packets[(box->first + index) % OUTBOX_PACKETS];
}

static struct outbox_packet *find (struct outbox *box, enum client_kind kind,
                                   uint32_t value)
{
    for (size_t i = 0; i < box->count; i++)
        if (at (box, i)->head.kind == kind && at (box, i)->head.value == value)
            return at (box, i);
    return NULL;
}

static void put (struct outbox *box, enum client_kind kind, uint32_t value,
                 uint32_t more, size_t size)
{
    if (box->is_broken)
        return;
    assert (box->count < OUTBOX_PACKETS);
    *at (box, box->count++) = (struct outbox_packet) {
        .head = { .kind = kind, .value = value },
        .more = more,
        .size = (uint32_t) size,
    };
}

bool outbox_has_room (const struct outbox *box)
{
    return box->count < OUTBOX_PACKETS - OUTBOX_RESERVED;
}

void outbox_add (struct outbox *box, enum client_kind kind, uint32_t value)
{
    if (kind != CLIENT_SIGNAL || !find (box, kind, value))
        put (box, kind, value, 0, WIRE_HEAD_BYTES);
}

void outbox_add_number (struct outbox *box, enum client_kind kind,
                        uint32_t value, uint32_t more)
{
    put (box, kind, value, more, WIRE_HEAD_BYTES + sizeof (more));
}

void outbox_withdraw (struct outbox *box, uint32_t stream)
{
    struct outbox_packet *waiting = find (box, CLIENT_GIVEN, stream);

    if (waiting)
        waiting->more = GIFT_NOTHING;
}

void outbox_add_written (struct outbox *box, uint32_t stream, size_t bytes)
{
    struct outbox_packet *waiting = find (box, CLIENT_WRITTEN, stream);

    if (waiting)
        waiting->more += (uint32_t) bytes;
    else if (bytes > 0)
        outbox_add_number (box, CLIENT_WRITTEN, stream, (uint32_t) bytes);
}

static bool has_descriptor (const struct outbox_packet *packet)
{
    return packet->head.kind == CLIENT_GIVEN && packet->more == GIFT_PIPE;
}

ssize_t outbox_send (int socket, const void *packet, size_t size,
                     const int fds[], size_t n_fds)
{
    union {
        char room[CMSG_SPACE (OUTBOX_FDS_MAX * sizeof (int))];
        struct cmsghdr align;
    } control = { 0 };
    struct iovec bytes = { .iov_base = (void *) packet, .iov_len = size };
    struct msghdr message = {
        .msg_iov = &bytes,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = (socklen_t) CMSG_SPACE (n_fds * sizeof (int)),
    };
    struct cmsghdr *header = CMSG_FIRSTHDR (&message);

    assert (n_fds > 0 && n_fds <= OUTBOX_FDS_MAX);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = (socklen_t) CMSG_LEN (n_fds * sizeof (int));
    memcpy (CMSG_DATA (header), fds, n_fds * sizeof (int));
    return sendmsg (socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool outbox_flush (struct outbox *box)
{
    struct outbox_packet *packet;
    ssize_t sent;

    while (box->count > 0 && !box->is_broken) {
        packet = at (box, 0);
        if (has_descriptor (packet)) {
            int fd = (int) packet->head.value;

            sent = outbox_send (box->socket, packet, packet->size, &fd, 1);
        } else {
            sent = send (box->socket, packet, packet->size,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == ETOOMANYREFS && has_descriptor (packet)) {
            packet->more = GIFT_NOTHING;    /* we write on */
            continue;
        }
        if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS
                         || errno == ENOMEM))
            return false;
        if (sent < 0) {
            box->is_broken = true;
            break;
        }
        box->first = (box->first + 1) % OUTBOX_PACKETS;
        box->count--;
    }
    if (box->is_broken)
        box->count = 0;
    return box->count == 0;
}
