#include "ptl_origin.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ESTABLISHED 1 /* of idiag_state; kernel headers hide it */
#define LOOPBACK 0x7f000000u

static uint64_t user (uint32_t uid)
{
    return PTL_ORIGIN_USER | uid;
}

static uint64_t of_unix (int fd)
{
    struct ucred cred;
    socklen_t size = sizeof (cred);

    if (getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
        return 0;
    return user (cred.uid);
}

static uint32_t address_of (const struct sockaddr_in *in)
{
    uint32_t nid = ntohl (in->sin_addr.s_addr);

    return nid >> 24 == LOOPBACK >> 24 ? LOOPBACK : nid;
}

struct question {
    struct nlmsghdr header;
    struct inet_diag_req_v2 request;
};

struct answer {
    struct nlmsghdr header;
    struct inet_diag_msg socket;
};

/* Ask the kernel for one socket by its two ends: it does not walk a list. The
 * answer is there when the question has been sent. */
static bool ask (const struct question *question, struct answer *answer)
{
    int fd = socket (AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC,
                     NETLINK_SOCK_DIAG);
    struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
    ssize_t n = -1;

    if (fd < 0)
        return false;
    if (sendto (fd, question, sizeof (*question), 0,
                (struct sockaddr *)&kernel, sizeof (kernel))
        == (ssize_t)sizeof (*question))
        n = recv (fd, answer, sizeof (*answer), MSG_DONTWAIT);
    close (fd);
    return n == (ssize_t)sizeof (*answer)
        && answer->header.nlmsg_type == SOCK_DIAG_BY_FAMILY;
}

/* The user who owns the other end of a connection within this host. A socket
 * that has been closed is reported as root's, without an inode. */
static bool find_user (const struct sockaddr_in *own,
                       const struct sockaddr_in *peer, uint32_t *uid)
{
    struct question question = {
        .header = { .nlmsg_len = sizeof (question),
                    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                    .nlmsg_flags = NLM_F_REQUEST },
        .request = { .sdiag_family = AF_INET,
                     .sdiag_protocol = IPPROTO_TCP,
                     .idiag_states = 1u << ESTABLISHED,
                     .id = { .idiag_sport = peer->sin_port,
                             .idiag_dport = own->sin_port,
                             .idiag_src = { peer->sin_addr.s_addr },
                             .idiag_dst = { own->sin_addr.s_addr },
                             .idiag_cookie = { INET_DIAG_NOCOOKIE,
                                               INET_DIAG_NOCOOKIE } } },
    };
    struct answer answer;

    if (!ask (&question, &answer)
        || answer.socket.idiag_state != ESTABLISHED
        || answer.socket.idiag_inode == 0
        || answer.socket.id.idiag_sport != peer->sin_port)
        return false;
    *uid = answer.socket.idiag_uid;
    return true;
}

static uint64_t of_tcp (int fd)
{
    struct sockaddr_in own = { 0 }, peer = { 0 };
    socklen_t own_size = sizeof (own), peer_size = sizeof (peer);
    uint32_t uid;

    if (getsockname (fd, (struct sockaddr *)&own, &own_size) < 0
        || getpeername (fd, (struct sockaddr *)&peer, &peer_size) < 0)
        return 0;
    if (address_of (&own) == address_of (&peer)
        && find_user (&own, &peer, &uid))
        return user (uid);
    return address_of (&peer);
}

uint64_t ptl_origin_of (int fd, bool is_unix)
{
    return is_unix ? of_unix (fd) : of_tcp (fd);
}
