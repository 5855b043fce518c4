/* pair.h - two processes with one interface each, made by PtlNIInit.
 *
 * The parent forks before PtlInit; ids go over a socket pair, so does every
 * other word (pair_say, pair_hear) that a test needs outside of Portals.
 */
#ifndef PAIR_H
#define PAIR_H

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "portals4.h"

struct pair {
    int rank; /* 0: the parent */
    int line; /* to the other */
    pid_t child;
    char key[32];
    ptl_handle_ni_t ni;
    ptl_process_t self, other; /* as this interface names processes */
};

static inline void pair_say (const struct pair *pair, const void *data,
                             size_t length)
{
    CHECK (write (pair->line, data, length) == (ssize_t)length);
}

static inline void pair_hear (const struct pair *pair, void *data,
                              size_t length)
{
    CHECK (recv (pair->line, data, length, MSG_WAITALL) == (ssize_t)length);
}

/* Both have come here. */
static inline void pair_meet (const struct pair *pair)
{
    char word = 'm';

    pair_say (pair, &word, 1);
    pair_hear (pair, &word, 1);
}

static inline void pair_key (struct pair *pair)
{
    uint8_t secret[32] = { 7 };
    int fd;

    strcpy (pair->key, "/tmp/portals-key-XXXXXX");
    CHECK ((fd = mkstemp (pair->key)) >= 0);
    CHECK (write (fd, secret, sizeof (secret)) == sizeof (secret));
    close (fd);
    setenv ("PTL_KEY_FILE", pair->key, 1);
}

static inline void pair_names (struct pair *pair, unsigned options)
{
    ptl_process_t map[2];

    CHECK (PtlGetPhysId (pair->ni, &pair->self) == PTL_OK);
    pair_say (pair, &pair->self, sizeof (pair->self));
    pair_hear (pair, &pair->other, sizeof (pair->other));
    if (!(options & PTL_NI_LOGICAL))
        return;
    map[pair->rank] = pair->self;
    map[!pair->rank] = pair->other;
    CHECK (PtlSetMap (pair->ni, 2, map) == PTL_OK);
    pair->self.rank = (ptl_rank_t)pair->rank;
    pair->other.rank = (ptl_rank_t)!pair->rank;
}

/* Two processes come out of here, with an interface of these options. */
static inline void pair_open (struct pair *pair, unsigned options)
{
    int lines[2];

    memset (pair, 0, sizeof (*pair));
    pair_key (pair);
    CHECK (socketpair (AF_UNIX, SOCK_STREAM, 0, lines) == 0);
    CHECK ((pair->child = fork ()) >= 0);
    pair->rank = pair->child == 0;
    pair->line = lines[pair->rank];
    close (lines[!pair->rank]);
    CHECK (PtlInit () == PTL_OK);
    CHECK (PtlNIInit (PTL_IFACE_DEFAULT, options, PTL_PID_ANY, NULL, NULL,
                      &pair->ni)
           == PTL_OK);
    pair_names (pair, options);
}

/* Both have to come here; the parent's result is that of both. */
static inline int pair_close (struct pair *pair)
{
    int status = 0;

    pair_meet (pair);
    CHECK (PtlNIFini (pair->ni) == PTL_OK);
    PtlFini ();
    close (pair->line);
    if (pair->rank == 0) {
        unlink (pair->key);
        CHECK (waitpid (pair->child, &status, 0) == pair->child);
    }
    return status != 0;
}

#endif
