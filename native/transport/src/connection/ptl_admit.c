#include "ptl_admit.h"

#include "ptl_answer.h"
#include "ptl_conn.h"
#include "ptl_in.h"
#include "ptl_near.h"
#include "ptl_peer.h"
#include "ptl_room.h"

static bool is_lower (const struct ptl_end *end, uint32_t nid, uint32_t pid)
{
    return end->self.nid != nid ? end->self.nid < nid : end->self.pid < pid;
}

static bool same_principal (const struct ptl_who *a, const struct ptl_who *b)
{
    return a->kind == b->kind && a->uid == b->uid && a->job_id == b->job_id;
}

/* May this peer be known by the id that it names? An id that others can dial
 * only if it holds the same key as we do: else a user could receive the
 * messages that are meant for a daemon. */
static bool is_believed (struct ptl_conn *conn, uint32_t nid, uint32_t pid)
{
    const struct ptlx_key *own = &conn->end->default_key;
    const struct ptl_peer *peer = ptl_peer_find (conn->end, nid, pid);

    if (nid == conn->end->self.nid && pid == conn->end->self.pid)
        return false;
    if (conn->who.kind == PTLX_KEY_PARTITION)
        return true;
    if (conn->who.kind == PTLX_KEY_JOB && own->kind == PTLX_KEY_JOB
        && own->job_id == conn->who.job_id)
        return true;
    if (conn->is_near && ptl_near_takes_keyless (conn->end))
        return true; /* a process of our user */
    if (pid < 1u << 16 || nid < 1u << 24)
        return false;
    return !peer
        || (peer->conn && same_principal (&peer->conn->who, &conn->who));
}

static uint32_t fresh_pid (struct ptl_end *end, uint32_t nid)
{
    uint32_t pid;

    do {
        end->seed = end->seed * 1664525u + 1013904223u;
        pid = end->seed | 1u << 16;
    } while (pid == PTL_PID_ANY || ptl_peer_find (end, nid, pid));
    return pid;
}

/* Deliver everything that arrived on the old connection before its end. */
static void replace (struct ptl_peer *peer, uint64_t incarnation)
{
    struct ptl_conn *old = peer->conn;
    uint32_t loss = old->incarnation == incarnation ? PTLX_LOSS_DIED
                                                    : PTLX_LOSS_RESTARTED;

    ptl_in_read_all (old);
    if (old->state != PTL_CONN_READY)
        return;
    if (old->is_parting && old->incarnation == incarnation)
        ptl_room_parted (old); /* its goodbye is still on the way */
    else
        ptl_conn_fail (old, loss, 0);
}

/* We opened the old connection, and when both ends dial ours survives: probe
 * it. If it is half-open, the kernel of the other end resets it, and the next
 * dial of the other end is accepted. */
static bool is_crossing (struct ptl_peer *peer, uint64_t incarnation)
{
    struct ptl_frame ping = { .type = PTL_FRAME_PING };

    if (peer->conn->incarnation != incarnation || !peer->conn->is_dialled
        || !is_lower (peer->end, peer->nid, peer->pid))
        return false;
    if (!peer->conn->is_pinged) {
        peer->conn->is_pinged = true;
        ptl_answer_send (peer->conn, &ping);
    }
    return true;
}

enum ptl_code ptl_admit (struct ptl_conn *conn, uint32_t nid,
                              uint32_t pid)
{
    struct ptl_end *end = conn->end;
    struct ptl_peer *peer;

    if (!is_believed (conn, nid, pid))
        pid = fresh_pid (end, nid);
    peer = ptl_peer_find (end, nid, pid);
    if (peer && peer->conn) {
        if (is_crossing (peer, conn->incarnation))
            return PTL_CODE_COLLISION;
        replace (peer, conn->incarnation);
        peer = ptl_peer_find (end, nid, pid);
    }
    if (peer && peer->dial && is_lower (end, nid, pid))
        return PTL_CODE_COLLISION;
    if (!peer && !(peer = ptl_peer_alloc (end, nid, pid)))
        return PTL_CODE_FULL;
    ptl_peer_abandon_dial (peer);
    conn->who.nid = nid;
    conn->who.pid = pid;
    conn->peer = peer;
    peer->conn = conn;
    peer->uid = conn->share ? conn->who.uid : 0;
    return PTL_CODE_READY;
}
