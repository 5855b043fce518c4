/* post.h - messages between a rank's process and the one that has the namespaces. */
#ifndef YOD_INIT_POST_H
#define YOD_INIT_POST_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#define POST_FDS 5
#define TROUBLE_BYTES 512
#define ENVIRONMENT_BYTES 4096

struct post {
    int32_t rank;                       /* of the job */
    int32_t init;                       /* process 1, as the host numbers it */
    int32_t program;                    /* likewise, of what has been brought back */
    char trouble[TROUBLE_BYTES];        /* "": none */
    char environment[ENVIRONMENT_BYTES];        /* of its own, lines NAME=VALUE */
};

struct post_from {
    struct sockaddr_un address;
    socklen_t length;                   /* 0: a socket pair */
    pid_t pid;                          /* of the sender, as this process sees it */
    uid_t uid;
};

/* Have the kernel say who sends. 0, or -1 */
int post_ask_who (int fd);

/* Send to an address, or NULL: to the other end. 0, or -1 */
int post_send (int fd, const struct post *post, const struct post_from *to,
               const int *fds, int n_fds);

/* Receive one; what comes along closes when a program is executed.
 * fds: room for POST_FDS. Returns how many have come, or -1 */
int post_receive (int fd, struct post *post, struct post_from *from, int *fds);

#endif
