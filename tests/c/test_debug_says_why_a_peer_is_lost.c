/* With PTL_DEBUG=on each peer that is lost is one line on standard error: its
 * address, its rank, and why. A peer that ends in order is no loss, and without
 * the variable nothing is said. */
#include <arpa/inet.h>
#include <signal.h>

#include "pair.h"
#include "said.h"

static ptl_handle_ni_t ni;
static ptl_handle_eq_t eq;
static ptl_handle_md_t md;

static void make_objects (void)
{
    ptl_md_t all = { .ct_handle = PTL_CT_NONE, .eq_handle = PTL_EQ_NONE };

    CHECK (PtlEQAlloc (ni, 16, &eq) == PTL_OK);
    all.eq_handle = eq;
    CHECK (PtlMDBind (ni, &all, &md) == PTL_OK);
}

static void open_interface (void)
{
    CHECK (PtlInit () == PTL_OK);
    CHECK (PtlNIInit (PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL,
                      PTL_PID_ANY, NULL, NULL, &ni)
           == PTL_OK);
    make_objects ();
}

/* A port of this host at which nobody listens, while `fd` is open. */
static uint32_t closed_port (int *fd)
{
    struct sockaddr_in in = { .sin_family = AF_INET };
    socklen_t size = sizeof (in);

    in.sin_addr.s_addr = htonl (LOOPBACK);
    CHECK ((*fd = socket (AF_INET, SOCK_STREAM, 0)) >= 0);
    CHECK (bind (*fd, (struct sockaddr *)&in, size) == 0);
    CHECK (getsockname (*fd, (struct sockaddr *)&in, &size) == 0);
    return ntohs (in.sin_port);
}

static void put (void)
{
    ptl_process_t target = { .rank = 1 };

    CHECK (PtlPut (md, 0, 0, PTL_ACK_REQ, target, 0, 0, 0, NULL, 0)
           == PTL_OK);
}

/* Why the put, which is over then, has failed. */
static ptl_ni_fail_t answer (void)
{
    ptl_event_t event;

    do
        CHECK (PtlEQWait (eq, &event) == PTL_OK);
    while (event.type != PTL_EVENT_ACK);
    return event.ni_fail_type;
}

/* What is said of a rank 1 at which nobody listens. */
static const char *said_of_nobody (char name[64])
{
    ptl_process_t map[2];
    int fd;

    open_interface ();
    CHECK (PtlGetPhysId (ni, &map[0]) == PTL_OK);
    map[1].phys.nid = LOOPBACK;
    map[1].phys.pid = closed_port (&fd);
    snprintf (name, 64, "libportals: lost 127.0.0.1:%u (rank 1): ",
              map[1].phys.pid);
    CHECK (PtlSetMap (ni, 2, map) == PTL_OK);
    said_begin ();
    put ();
    CHECK (answer () == PTL_NI_UNDELIVERABLE);
    PtlFini ();
    close (fd);
    return said_end ();
}

static void check_nobody (const char *transport, const char *why)
{
    char name[64];
    const char *text;

    setenv ("PTL_TRANSPORT", transport, 1);
    text = said_of_nobody (name);
    if (!strstr (text, why))
        fputs (text, stderr);
    CHECK (is_one_line (text) && strstr (text, why));
    CHECK (strncmp (text, name, strlen (name)) == 0);
    unsetenv ("PTL_TRANSPORT");
}

static void check_silence (void)
{
    char name[64];

    unsetenv ("PTL_DEBUG");
    CHECK (*said_of_nobody (name) == '\0');
    setenv ("PTL_DEBUG", "on", 1);
}

/* The other one has a put to answer, and never will. */
static void kill_other (const struct pair *pair)
{
    CHECK (kill (pair->child, SIGSTOP) == 0);
    CHECK (waitpid (pair->child, NULL, WUNTRACED) == pair->child);
    put ();
    CHECK (kill (pair->child, SIGKILL) == 0);
    CHECK (waitpid (pair->child, NULL, 0) == pair->child);
    CHECK (answer () == PTL_NI_UNDELIVERABLE);
    PtlFini ();
    unlink (pair->key);
}

/* Two processes that have spoken; one is killed, or both end in order. */
static void check_end (bool is_killed)
{
    struct pair pair;
    const char *text;

    said_begin ();
    pair_open (&pair, PTL_NI_MATCHING | PTL_NI_LOGICAL);
    if (pair.rank == 1) {
        pair_meet (&pair);
        _exit (pair_close (&pair));
    }
    ni = pair.ni;
    make_objects ();
    put ();
    CHECK (answer () == PTL_NI_DROPPED);
    if (is_killed)
        kill_other (&pair);
    else {
        pair_meet (&pair);
        CHECK (pair_close (&pair) == 0);
    }
    unsetenv ("PTL_KEY_FILE");
    text = said_end ();
    CHECK (is_killed || *text == '\0');
    CHECK (!is_killed
           || (is_one_line (text)
               && strstr (text, " (rank 1): its connection")));
}

int main (void)
{
    struct pair pair;

    unsetenv ("PTL_KEY_FILE");
    setenv ("PTL_DEBUG", "on", 1);
    check_nobody ("tcp", "PTL_KEY_FILE");
    pair_key (&pair);
    check_nobody ("tcp", "reached: Connection refused");
    unlink (pair.key);
    unsetenv ("PTL_KEY_FILE");
    check_silence ();
    check_end (true);
    check_end (false);
    return 0;
}
