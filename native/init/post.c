#include "post.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

int post_ask_who (int fd)
{
    int on = 1;

    return setsockopt (fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof (on));
}

int post_send (int fd, const struct post *post, const struct post_from *to,
               const int *fds, int n_fds)
{
    union {
        char bytes[CMSG_SPACE (POST_FDS * sizeof (int))];
        struct cmsghdr align;
    } control = { { 0 } };
    struct iovec part = { (void *) post, sizeof (*post) };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    ssize_t n;

    if (to && to->length > 0) {
        message.msg_name = (void *) &to->address;
        message.msg_namelen = to->length;
    }
    if (n_fds > 0) {
        struct cmsghdr *header = &control.align;
        size_t bytes = (size_t) n_fds * sizeof (int);

        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = (socklen_t) CMSG_LEN (bytes);
        memcpy (CMSG_DATA (header), fds, bytes);
        message.msg_control = control.bytes;
        message.msg_controllen = (socklen_t) CMSG_SPACE (bytes);
    }
    while ((n = sendmsg (fd, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR)
        ;
    return n == sizeof (*post) ? 0 : -1;
}

int post_receive (int fd, struct post *post, struct post_from *from, int *fds)
{
    union {
        char bytes[CMSG_SPACE (POST_FDS * sizeof (int))
                   + CMSG_SPACE (sizeof (struct ucred))];
        struct cmsghdr align;
    } control;
    struct iovec part = { post, sizeof (*post) };
    struct msghdr message = {
        .msg_name = &from->address,
        .msg_namelen = sizeof (from->address),
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof (control.bytes),
    };
    int n_fds = 0;
    ssize_t n;

    from->pid = -1;
    from->uid = (uid_t) -1;
    while ((n = recvmsg (fd, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    if (n < 0)
        return -1;
    from->length = message.msg_namelen;
    for (struct cmsghdr *header = CMSG_FIRSTHDR (&message); header;
         header = CMSG_NXTHDR (&message, header)) {
        if (header->cmsg_type == SCM_CREDENTIALS) {
            struct ucred who;

            memcpy (&who, CMSG_DATA (header), sizeof (who));
            from->pid = who.pid;
            from->uid = who.uid;
        } else if (header->cmsg_type == SCM_RIGHTS) {
            n_fds = (int) ((header->cmsg_len - CMSG_LEN (0)) / sizeof (int));
            memcpy (fds, CMSG_DATA (header), (size_t) n_fds * sizeof (int));
        }
    }
    if (n == sizeof (*post) && from->pid > 0)
        return n_fds;
    for (int i = 0; i < n_fds; i++)
        close (fds[i]);
    errno = EPROTO;
    return -1;
}
