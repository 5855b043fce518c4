#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct report *report_add (struct outbox *box, enum report_kind kind,
                           uint32_t rank)
{
    struct report *report;

    if (box->first == box->count)
        box->first = box->count = 0;
    if (box->count == box->room) {
        size_t room = box->room ? 2 * box->room : PACKET_REPORTS;
        struct report *more = realloc (box->reports, room * sizeof (*more));

        if (!more)
            _exit (70);
        box->reports = more;
        box->room = room;
    }
    report = &box->reports[box->count++];
    memset (report, 0, sizeof (*report));
    report->kind = (uint16_t) kind;
    box->is_urgent |= kind != REPORT_ENDED;
    report->rank = rank;
    return report;
}

void report_set_text (struct report *report, const char *text)
{
    size_t n = strnlen (text, REPORT_TEXT_BYTES);

    memcpy (report->text, text, n);
    report->text_bytes = (uint32_t) n;
}

/* Count the first records that fit one packet, and their descriptors. */
static size_t choose (const struct outbox *box, size_t *n_fds)
{
    size_t n = 0, fds;

    *n_fds = 0;
    while (box->first + n < box->count && n < PACKET_REPORTS) {
        fds = (size_t) __builtin_popcount (box->reports[box->first + n].fds);
        if (*n_fds + fds > PACKET_FDS)
            break;
        *n_fds += fds;
        n++;
    }
    return n;
}

static ssize_t send_packet (const struct outbox *box, size_t n, size_t n_fds)
{
    union {
        char room[CMSG_SPACE (sizeof (int) * PACKET_FDS)];
        struct cmsghdr align;
    } control;
    struct iovec bytes = {
        .iov_base = &box->reports[box->first],
        .iov_len = n * sizeof (struct report),
    };
    struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1 };
    ssize_t sent;

    if (n_fds > 0) {
        message.msg_control = &control;
        message.msg_controllen = (socklen_t) CMSG_SPACE (sizeof (int) * n_fds);
        memset (&control, 0, message.msg_controllen);
        struct cmsghdr *header = CMSG_FIRSTHDR (&message);

        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = (socklen_t) CMSG_LEN (sizeof (int) * n_fds);
        memcpy (CMSG_DATA (header), box->fds, sizeof (int) * n_fds);
    }
    do
        sent = sendmsg (box->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent;
}

static void close_fds (struct outbox *box, size_t n)
{
    for (size_t i = 0; i < n; i++)
        close (box->fds[i]);
    box->n_fds -= n;
    memmove (box->fds, box->fds + n, sizeof (int) * box->n_fds);
}

bool report_flush (struct outbox *box)
{
    size_t n, n_fds;

    while (box->first < box->count) {
        n = choose (box, &n_fds);
        /* ETOOMANYREFS: too many descriptors wait in sockets; the PCT has to
         * take some, as with a full socket. */
        if (!box->is_broken && send_packet (box, n, n_fds) < 0) {
            if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM
                || errno == ETOOMANYREFS)
                return false;
            box->is_broken = true;
        }
        close_fds (box, n_fds);
        box->first += n;
    }
    box->is_urgent = false;
    return true;
}
