/* Who has as many unproven connections as one may have loses the oldest of
 * them; when all places are taken, who has most gives way to who has less, and
 * nobody else is closed. Who is turned away reads why, also over what it has
 * sent unread; and what has ended or proven itself has no place. */
#include <sys/socket.h>

#include "near_ends.h"
#include "raw.h"
#include "ptl_handle.h"
#include "ptl_origin.h"
#include "ptl_shake.h"

#define PLACES 8
#define SHARE 4
#define ALICE (PTL_ORIGIN_USER | 1001)
#define BOB (PTL_ORIGIN_USER | 1002)
#define HOST 0x0a000001u
#define OPEN 255 /* no verdict yet */

static struct end end;
static struct ptl_end *inner;

/* What a listener does with a connection of that origin; the other end. */
static int come (uint64_t origin)
{
    enum ptl_code code = ptl_unproven_make_room (inner, origin);
    struct ptl_conn *conn;
    int fds[2];

    CHECK (socketpair (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    CHECK (send (fds[1], "anything", 8, 0) == 8);
    if (code != PTL_CODE_READY) {
        ptl_shake_say_no (inner, fds[0], code);
        close (fds[0]);
        return fds[1];
    }
    CHECK ((conn = ptl_conn_alloc (inner, fds[0], false, true)));
    conn->state = PTL_CONN_SHAKING;
    CHECK (ptl_shake_listen (conn, origin));
    return fds[1];
}

/* The code that it has been told, if it was hung up on. */
static uint8_t verdict (int fd)
{
    uint8_t m4[PTL_M4_BYTES + 1];
    ssize_t n = recv (fd, m4, sizeof (m4), MSG_PEEK);

    if (n < 0 && errno == EAGAIN)
        return OPEN;
    CHECK (n == PTL_M4_BYTES && m4[4] == 4);
    return m4[5];
}

static void check_verdicts (const int *fds, int n, int turned_away,
                            uint8_t code)
{
    for (int i = 0; i < n; i++)
        CHECK (verdict (fds[i]) == (i < turned_away ? code : OPEN));
}

static void hang_up (int *fds, int n)
{
    for (int i = 0; i < n; i++)
        close (fds[i]);
}

static void open_listener (void)
{
    struct ptlx_config config = {
        .listen_nid = LOOPBACK,
        .partition_key = test_key,
        .max_unproven = PLACES,
        .max_unproven_each = SHARE,
    };
    struct ptl_ni *ni;

    end_open_with (&end, &config, 8);
    CHECK (ptl_handle_find (end.ni, PTL_HANDLE_NI, &ni) == PTL_OK);
    inner = ni->end;
}

static void await_none (void)
{
    int64_t until = now_ms () + LIMIT_MS;

    while (inner->n_unproven > 0) {
        CHECK (now_ms () < until);
        end_take (&end);
    }
    CHECK (ptl_list_empty (&inner->origins));
}

static void beyond_its_share_the_oldest_goes (void)
{
    int alice[SHARE + 3], bob[SHARE];

    for (int i = 0; i < SHARE; i++)
        bob[i] = come (BOB);
    for (int i = 0; i < SHARE + 3; i++)
        alice[i] = come (ALICE);
    check_verdicts (alice, SHARE + 3, 3, PTL_CODE_SHARE);
    check_verdicts (bob, SHARE, 0, 0);
    CHECK (inner->n_unproven == PLACES);
    hang_up (alice, SHARE + 3);
    hang_up (bob, SHARE);
    await_none ();
}

/* Two have all: a third gets as many as they have, place by place. */
static void who_has_most_gives_way (void)
{
    int alice[SHARE], bob[SHARE], host[SHARE];

    for (int i = 0; i < SHARE; i++)
        alice[i] = come (ALICE);
    for (int i = 0; i < SHARE; i++)
        bob[i] = come (BOB);
    for (int i = 0; i < 2; i++)
        host[i] = come (HOST);
    check_verdicts (host, 2, 0, 0);
    check_verdicts (alice, SHARE, 1, PTL_CODE_SHARE);
    check_verdicts (bob, SHARE, 1, PTL_CODE_SHARE);
    host[2] = come (HOST); /* 3, 3 and 2: from now on it is its own */
    check_verdicts (host, 3, 1, PTL_CODE_SHARE);
    check_verdicts (alice, SHARE, 1, PTL_CODE_SHARE);
    check_verdicts (bob, SHARE, 1, PTL_CODE_SHARE);
    hang_up (alice, SHARE);
    hang_up (bob, SHARE);
    hang_up (host, 3);
    await_none ();
}

/* Each has one place: nobody has too many, and there is none. */
static void all_are_taken_by_others (void)
{
    int fds[PLACES + 1];

    for (int i = 0; i <= PLACES; i++)
        fds[i] = come (HOST + (uint64_t)i);
    CHECK (verdict (fds[PLACES]) == PTL_CODE_FULL);
    check_verdicts (fds, PLACES, 0, 0);
    hang_up (fds, PLACES + 1);
    await_none ();
}

static void what_is_proven_has_no_place (void)
{
    struct raw peers[SHARE + 1];

    for (uint32_t i = 0; i <= SHARE; i++)
        peers[i] = raw_open (&end, RAW_PID + i, i + 1, NULL);
    CHECK (inner->n_unproven == 0 && ptl_list_empty (&inner->origins));
    for (int i = 0; i <= SHARE; i++)
        close (peers[i].fd);
}

int main (void)
{
    open_listener ();
    beyond_its_share_the_oldest_goes ();
    who_has_most_gives_way ();
    all_are_taken_by_others ();
    what_is_proven_has_no_place ();
    end_close (&end);
    return 0;
}
