#include "fake.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>

static int listener;
static const char *answers;

/* One client: its request is taken, then all answers are given. */
static void *serve (void *unused)
{
    int fd = accept (listener, NULL, NULL);
    char request[256];

    (void)unused;
    CHECK (fd >= 0);
    CHECK (recv (fd, request, sizeof (request), 0) > 0);
    CHECK (strncmp (request, "cmd=initack pmiid=4\n", 20) == 0);
    CHECK (send (fd, answers, strlen (answers), MSG_NOSIGNAL)
           == (ssize_t)strlen (answers));
    shutdown (fd, SHUT_WR);
    while (recv (fd, request, sizeof (request), 0) > 0)
        ;
    close (fd);
    return NULL;
}

static int join (const char *text)
{
    pthread_t thread;
    int n, rc;

    answers = text;
    CHECK (pthread_create (&thread, NULL, serve, NULL) == 0);
    rc = PMI_Init (&n);
    if (rc == PMI_SUCCESS) {
        CHECK (PMI_Get_rank (&n) == PMI_SUCCESS && n == 1);
        CHECK (PMI_Get_size (&n) == PMI_SUCCESS && n == 3);
        CHECK (PMI_Finalize () == PMI_SUCCESS);
    }
    pthread_join (thread, NULL);
    return rc;
}

static void use_port (void)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    socklen_t length = sizeof (at);
    char port[64];

    listener = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
    CHECK (bind (listener, (struct sockaddr *)&at, length) == 0);
    CHECK (listen (listener, 4) == 0);
    CHECK (getsockname (listener, (struct sockaddr *)&at, &length) == 0);
    snprintf (port, sizeof (port), "127.0.0.1:%d", ntohs (at.sin_port));
    setenv ("PMI_PORT", port, 1);
    setenv ("PMI_ID", "4", 1);
    unsetenv ("PMI_FD");
}

int main (void)
{
    int n;

    use_port ();
    CHECK (join ("cmd=initack\ncmd=set size=3\ncmd=set rank=1\n"
                 "cmd=set debug=0\n" JOINED "cmd=finalize_ack rc=0\n")
           == PMI_SUCCESS);
    setenv ("PMI_FD", "0", 1); /* no socket: somebody closed it */
    CHECK (join ("cmd=initack\ncmd=set size=3\ncmd=set rank=1\n"
                 "cmd=set debug=0\n" JOINED "cmd=finalize_ack rc=0\n")
           == PMI_SUCCESS);
    unsetenv ("PMI_FD");
    CHECK (join ("") == PMI_FAIL);
    CHECK (join ("cmd=initack\ncmd=set size=3\n") == PMI_FAIL);
    CHECK (join ("cmd=initack\ncmd=set size=3\ncmd=set rank=3\n"
                 "cmd=set debug=0\n" JOINED)
           == PMI_FAIL);
    CHECK (join ("cmd=initack\ncmd=set size=3\ncmd=set size=3\n"
                 "cmd=set debug=0\n" JOINED)
           == PMI_FAIL);
    close (listener);
    CHECK (PMI_Init (&n) == PMI_FAIL);
    setenv ("PMI_PORT", "nowhere", 1);
    CHECK (PMI_Init (&n) == PMI_FAIL);
    setenv ("PMI_PORT", ":1", 1);
    CHECK (PMI_Init (&n) == PMI_FAIL);
    return 0;
}
