/* Processes of two users reach each other by TCP, whoever dials; and the other
 * end of a Unix socket is the same user only if the kernel says so. */
#include "near_ends.h"

#define NOBODY 65534

static uint8_t memory[4096];

static void check_both (struct end *end, ptl_process_t peer)
{
    ptl_handle_md_t md = bind_memory (end, memory, 1,
                                      PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);

    for (int i = 0; i < 20; i++) {
        CHECK (PtlPut (md, 0, 1, PTL_ACK_REQ, peer, 0, 0, 0, NULL, 0)
               == PTL_OK);
        pump_until (end, 1, end, PTL_EVENT_ACK, i + 1);
    }
    CHECK (!is_shared (end));
    CHECK (!conn_of (end)->is_unix);
}

static void open_both (struct end *end)
{
    near_open (end, 1024);
    open_entry (end, open_table (end, 0), memory, sizeof (memory), 0,
                PTL_CT_NONE);
}

/* As another user, if this one may become it. */
static void answer (struct other *parent)
{
    struct end end;
    ptl_process_t peer;

    CHECK (setuid (NOBODY) == 0);
    open_both (&end);
    other_tell (parent, &end.id, sizeof (end.id));
    pump_until (&end, 1, &end, PTLX_EVENT_PEER_LOST, 1);
    end_close (&end);
    other_hear (parent, &peer, sizeof (peer));
    open_both (&end);
    check_both (&end, peer);
    end_close (&end);
}

static void as_two_users (void)
{
    struct other other = other_start (answer);
    struct end end;
    ptl_process_t peer;

    other_hear (&other, &peer, sizeof (peer));
    open_both (&end);
    check_both (&end, peer);
    end_close (&end);
    open_both (&end);
    other_tell (&other, &end.id, sizeof (end.id));
    pump_until (&end, 1, &end, PTLX_EVENT_PEER_LOST, 1);
    end_close (&end);
    other_end (&other);
}

int main (void)
{
    int sockets[2];

    CHECK (socketpair (AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    CHECK (ptl_shm_is_same_user (sockets[0], geteuid ()));
    CHECK (!ptl_shm_is_same_user (sockets[0], geteuid () + 1));
    close (sockets[0]);
    close (sockets[1]);
    if (geteuid () == 0)
        as_two_users ();
    return 0;
}
