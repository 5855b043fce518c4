/* house.c - how a rank's process finds the one that has its namespaces. */
#include "house.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "fds.h"
#include "landlord.h"
#include "proc.h"
#include "userns.h"

static int fail (const char *what)
{
    fprintf (stderr, "yod-init: %s: %s\n", what, strerror (errno));
    return -1;
}

int house_namespaces (void)
{
    return userns_is_needed () ? CLONE_NEWPID : CLONE_NEWPID | CLONE_NEWIPC;
}

/* A socket of its own in the abstract space, so that it can be answered. */
static int knock (const struct sockaddr_un *place)
{
    struct sockaddr_un own = { .sun_family = AF_UNIX };
    int fd = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || post_ask_who (fd) != 0
        || bind (fd, (struct sockaddr *) &own, sizeof (own.sun_family)) != 0
        || connect (fd, (const struct sockaddr *) place, sizeof (*place)) != 0)
        return fail (place->sun_path);
    return fds_above (fd);
}

/* The ranks of a node are children of one keeper. Whoever binds the name, which
 * only root can, starts the landlord; the others' messages wait there until it
 * reads them. */
static int find_shared (const struct house_order *order)
{
    struct sockaddr_un place = { .sun_family = AF_UNIX };
    pid_t keeper = getppid ();
    int fd = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    snprintf (place.sun_path, sizeof (place.sun_path), "/run/yod-init.%d.%lld",
              (int) keeper, proc_field (keeper, STAT_STARTED));
    if (fd < 0)
        return fail ("socket");
    if (bind (fd, (struct sockaddr *) &place, sizeof (place)) == 0) {
        if (post_ask_who (fd) != 0 || landlord_start (order, fd, place.sun_path) < 0)
            return fail ("cannot start what keeps the namespaces");
    } else if (errno != EADDRINUSE) {
        return fail (place.sun_path);
    }
    close (fd);
    return knock (&place);
}

static int find_own (const struct house_order *order)
{
    int pair[2];

    if (socketpair (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) != 0
        || post_ask_who (pair[0]) != 0 || post_ask_who (pair[1]) != 0
        || landlord_start (order, pair[1], "") < 0)
        return fail ("cannot start what keeps the namespaces");
    close (pair[1]);
    return fds_above (pair[0]);
}

int house_find (const struct house_order *order)
{
    return order->is_shared ? find_shared (order) : find_own (order);
}

/* Every rank of the world has the same but for its number. */
static void take_environment (char *lines, int rank)
{
    char number[16];
    char *rest = NULL;

    snprintf (number, sizeof (number), "%d", rank);
    for (char *line = strtok_r (lines, "\n", &rest); line; line = strtok_r (NULL, "\n", &rest)) {
        char *value = strchr (line, '=');

        if (!value)
            continue;
        *value = '\0';
        setenv (line, strcmp (line, "PMIX_RANK") == 0 ? number : value + 1, 1);
    }
}

pid_t house_enter (int house, int rank, const int *fds, pid_t *programp)
{
    struct post post = { .rank = rank };
    struct post_from from;
    int none[POST_FDS], given[POST_FDS], n = 0;

    for (int i = 0; fds && i < POST_FDS && fds[i] >= 0; i++)
        given[n++] = fds[i];
    if (post_send (house, &post, NULL, given, n) != 0)
        return fail ("nobody keeps the namespaces");
    do {
        if (post_receive (house, &post, &from, none) < 0)
            return fail ("what keeps the namespaces does not answer");
    } while (from.uid != geteuid ());
    if (*post.trouble) {
        fprintf (stderr, "yod-init: %s\n", post.trouble);
        return -1;
    }
    take_environment (post.environment, rank);
    *programp = post.program;
    return post.init;
}

int house_tell (int house, pid_t program)
{
    struct post post = { .program = program };
    pid_t parent = (pid_t) proc_field (program, STAT_PARENT);
    int fds[2] = {
        (int) syscall (SYS_pidfd_open, program, 0),
        parent > 0 ? (int) syscall (SYS_pidfd_open, parent, 0) : -1,
    };
    int done = fds[0] < 0 || fds[1] < 0 ? -1 : post_send (house, &post, NULL, fds, 2);

    close (fds[0]);
    close (fds[1]);
    return done == 0 ? 0 : fail ("cannot name the program");
}
