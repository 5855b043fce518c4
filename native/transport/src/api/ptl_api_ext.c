/* ptl_api_ext.c - the public calls of portals4_ext.h. */
#include <stdlib.h>
#include <string.h>

#include "ptl_address.h"
#include "ptl_api.h"
#include "ptl_auth.h"
#include "ptl_blake2b.h"
#include "ptl_credential.h"
#include "ptl_eq.h"
#include "ptl_ends.h"
#include "ptl_err.h"
#include "ptl_fwd.h"
#include "ptl_move.h"
#include "ptl_near.h"
#include "ptl_peer.h"
#include "ptl_room.h"
#include "ptl_shake.h"
#include "ptl_shared.h"
#include "ptl_wake.h"

int PtlxNIInit (const struct ptlx_config *config, ptl_handle_ni_t *handle)
{
    return PtlxNIInitKind (config, PTL_NI_MATCHING | PTL_NI_PHYSICAL, NULL,
                           NULL, handle);
}

int PtlxNIInitKind (const struct ptlx_config *config, unsigned int options,
                    const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual,
                    ptl_handle_ni_t *handle)
{
    int kind = ptl_ni_kind_of (options);
    struct ptl_end *end;
    struct ptl_ni *ni;
    int rc = ptl_enter ();

    if (rc != PTL_OK)
        return rc;
    if (!config || !handle || kind < 0)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    if ((rc = ptl_ends_make (config, &end)) != PTL_OK)
        return ptl_leave (NULL, rc);
    if ((rc = ptl_ni_alloc (end, kind, desired, &ni)) != PTL_OK
        || (rc = ptl_handle_add (PTL_HANDLE_NI, ni, &ni->handle)) != PTL_OK) {
        ptl_end_free (end, 0);
        return ptl_leave (NULL, rc);
    }
    if (actual)
        *actual = ni->limits;
    *handle = ni->handle;
    return ptl_leave (NULL, PTL_OK);
}

/* An interface that PtlxNIInit made. */
static int find_private (ptl_handle_ni_t handle, struct ptl_ni **nip)
{
    int rc = ptl_api_ni (handle, nip);

    if (rc == PTL_OK && ptl_shared_is ((*nip)->end))
        return ptl_leave (NULL, PTL_ARG_INVALID);
    return rc;
}

int PtlxNIFini (ptl_handle_ni_t handle, uint32_t flush_ms)
{
    struct ptl_ni *ni;
    int rc = find_private (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    ptl_end_free (ni->end, flush_ms);
    return ptl_leave (NULL, PTL_OK);
}

int PtlxFd (ptl_handle_ni_t handle, int *fd)
{
    struct ptl_ni *ni;
    int rc = find_private (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!fd)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    *fd = ni->end->epoll_fd;
    if (!ni->end->is_watched) {
        ni->end->is_watched = true;
        ptl_wake_arm_all (ni->end);
    }
    return ptl_leave (ni->end, PTL_OK);
}

int PtlxNotify (ptl_handle_ni_t handle, ptl_handle_eq_t eq_handle)
{
    struct ptl_ni *ni;
    struct ptl_eq *eq;
    int rc = find_private (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if ((rc = ptl_api_find_eq (ni, eq_handle, &eq)) == PTL_OK)
        ni->end->notify = eq;
    return ptl_leave (NULL, rc);
}

static struct ptl_target *find_target (struct ptl_end *end, uint32_t nid,
                                       uint32_t pid)
{
    struct ptl_target *t;

    for (struct ptl_node *n = end->targets.next; n != &end->targets;
         n = n->next) {
        t = ptl_entry (n, struct ptl_target, node);
        if (t->nid == nid && t->pid == pid)
            return t;
    }
    return NULL;
}

static void forget_target (struct ptl_target *target)
{
    if (!target)
        return;
    ptl_list_remove (&target->node);
    explicit_bzero (target, sizeof (*target));
    free (target);
}

static int use_key (struct ptl_end *end, const ptl_process_t *target,
                    const struct ptlx_key *key)
{
    struct ptl_target *t
        = find_target (end, target->phys.nid, target->phys.pid);

    if (key->kind == PTLX_KEY_NONE) {
        forget_target (t);
        return PTL_OK;
    }
    if (!t && !(t = calloc (1, sizeof (*t))))
        return PTL_NO_SPACE;
    t->nid = target->phys.nid;
    t->pid = target->phys.pid;
    t->key = *key;
    if (!t->node.next)
        ptl_list_append (&end->targets, &t->node);
    return PTL_OK;
}

int PtlxUseKey (ptl_handle_ni_t handle, ptl_process_t target,
                const struct ptlx_key *key)
{
    struct ptl_ni *ni;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!key || key->kind > PTLX_KEY_MUNGE)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    if (target.phys.nid != PTL_NID_ANY)
        return ptl_leave (NULL, use_key (ni->end, &target, key));
    ni->end->default_key = *key;
    return ptl_leave (NULL, PTL_OK);
}

int PtlxPartitionKeys (ptl_handle_ni_t handle, const uint8_t *keys,
                       uint32_t n)
{
    struct ptl_ni *ni;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!keys || n == 0 || n > PTLX_KEYS_MAX
        || ni->end->n_partition_keys == 0)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    ptl_end_hold_keys (ni->end, keys, n);
    return ptl_leave (NULL, PTL_OK);
}

int PtlxUseCredential (ptl_handle_ni_t handle, const void *credential,
                       size_t length)
{
    struct ptl_ni *ni;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!credential || length == 0 || length > PTLX_CREDENTIAL_MAX_BYTES)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    memcpy (ni->end->credential, credential, length);
    ni->end->credential_length = (uint16_t)length;
    return ptl_leave (NULL, PTL_OK);
}

int PtlxTakeCredentials (ptl_handle_ni_t handle)
{
    struct ptl_ni *ni;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    ni->end->takes_credentials = true;
    return ptl_leave (NULL, PTL_OK);
}

int PtlxCredential (ptl_handle_ni_t handle, uint64_t ticket, void *copy,
                    size_t *length)
{
    struct ptl_ni *ni;
    struct ptl_conn *conn;
    size_t has;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!copy || !length || !(conn = ptl_credential_find (ni->end, ticket)))
        return ptl_leave (NULL, PTL_ARG_INVALID);
    has = conn->shake->have - PTL_START_BYTES;
    if (has > *length)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    memcpy (copy, conn->shake->in + PTL_START_BYTES, has);
    *length = has;
    return ptl_leave (NULL, PTL_OK);
}

int PtlxAnswerCredential (ptl_handle_ni_t handle, uint64_t ticket,
                          uint32_t uid, const uint8_t *secret, uint32_t code)
{
    struct ptl_ni *ni;
    struct ptl_conn *conn;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!secret && (code < PTL_CODE_CREDENTIAL || code > PTL_CODE_NO_JUDGE))
        return ptl_leave (NULL, PTL_ARG_INVALID);
    if (!(conn = ptl_credential_find (ni->end, ticket)))
        return ptl_leave (NULL, PTL_OK);
    if (secret)
        ptl_credential_accept (conn, uid, secret);
    else
        ptl_shake_refuse (conn, (enum ptl_code)code);
    return ptl_leave (NULL, PTL_OK);
}

static void forget_address (struct ptl_end *end, uint32_t nid)
{
    struct ptl_address *a;

    for (struct ptl_node *n = end->addresses.next; n != &end->addresses;
         n = n->next) {
        a = ptl_entry (n, struct ptl_address, node);
        if (a->nid == nid) {
            ptl_list_remove (n);
            free (a);
            return;
        }
    }
}

int PtlxSetAddress (ptl_handle_ni_t handle, ptl_nid_t nid,
                    const char *address)
{
    struct ptl_ni *ni;
    struct ptl_address *a;
    size_t size;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (nid == 0 || nid >= 1u << 24 || (address && !ptl_address_ok (address)))
        return ptl_leave (NULL, PTL_ARG_INVALID);
    forget_address (ni->end, nid);
    if (!address)
        return ptl_leave (NULL, PTL_OK);
    size = strlen (address) + 1;
    if (!(a = malloc (sizeof (*a) + size)))
        return ptl_leave (NULL, PTL_NO_SPACE);
    a->nid = nid;
    memcpy (a->text, address, size);
    ptl_list_append (&ni->end->addresses, &a->node);
    return ptl_leave (NULL, PTL_OK);
}

/* The event of a lost peer comes in a batch of its own. What the reader sends
 * while it handles earlier events is for the lost peer; what it sends after
 * this one is for a successor. */
static int take_batch (struct ptl_eq *eq, struct ptlx_event *events, int room)
{
    int count = 0;

    while (count < room) {
        if (count > 0 && ptl_eq_next_is (eq, PTLX_EVENT_PEER_LOST))
            break;
        if (ptl_eq_get (eq, &events[count]) == PTL_EQ_EMPTY)
            break;
        if (events[count++].type == PTLX_EVENT_PEER_LOST)
            break;
    }
    return count;
}

int PtlxEvents (ptl_handle_ni_t handle, ptl_handle_eq_t eq_handle,
                struct ptlx_event *events, int room, int *count)
{
    struct ptl_ni *ni;
    struct ptl_eq *eq;
    int rc = find_private (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!events || !count || room < 1
        || ptl_api_find_eq (ni, eq_handle, &eq) != PTL_OK || !eq)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    if (eq->used < (size_t)room) /* else arrivals outrun the reader */
        ptl_end_progress (ni->end, 0);
    *count = take_batch (eq, events, room);
    return ptl_leave (ni->end, PTL_OK);
}

int PtlxSend (ptl_handle_ni_t handle, ptl_nid_t nid, ptl_pid_t pid,
              const void *data, size_t length)
{
    struct ptl_ni *ni;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    return ptl_leave (ni->end,
                      ptl_move_message (ni->end, nid, pid, data, length));
}

int PtlxDisconnect (ptl_handle_ni_t handle, ptl_nid_t nid, ptl_pid_t pid)
{
    struct ptl_ni *ni;
    struct ptl_peer *peer;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if ((peer = ptl_peer_find (ni->end, nid, pid)))
        ptl_peer_leave (peer);
    return ptl_leave (ni->end, PTL_OK);
}

int PtlxPart (ptl_handle_ni_t handle, ptl_nid_t nid, ptl_pid_t pid)
{
    struct ptl_ni *ni;
    struct ptl_peer *peer;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if ((peer = ptl_peer_find (ni->end, nid, pid)) && peer->conn)
        ptl_room_offer (peer->conn);
    return ptl_leave (ni->end, PTL_OK);
}

int PtlxForward (ptl_handle_ni_t handle, const struct ptlx_object *object)
{
    struct ptl_ni *ni;
    int rc = find_private (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!object || ni->kind != 0) /* it is on the matching physical one */
        return ptl_leave (NULL, PTL_ARG_INVALID);
    return ptl_leave (ni->end, ptl_fwd_arm (ni->end, object));
}

int PtlxCancel (ptl_handle_ni_t handle, uint64_t match_bits)
{
    struct ptl_ni *ni;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    ptl_fwd_cancel (ni->end, match_bits);
    return ptl_leave (ni->end, PTL_OK);
}

int PtlxCounters (ptl_handle_ni_t handle, struct ptlx_counters *counters)
{
    struct ptl_end *end;
    struct ptl_ni *ni;
    int rc = ptl_api_ni (handle, &ni);

    if (rc != PTL_OK)
        return rc;
    if (!counters)
        return ptl_leave (NULL, PTL_ARG_INVALID);
    end = ni->end;
    *counters = end->counters;
    counters->peers = end->n_peers;
    counters->unproven = end->n_unproven;
    counters->connections = 0;
    for (struct ptl_node *n = end->conns.next; n != &end->conns; n = n->next)
        counters->connections++;
    return ptl_leave (NULL, PTL_OK);
}

const char *PtlxErrorName (int rc)
{
    return ptl_err_name (rc);
}

const char *PtlxErrorText (int rc)
{
    return ptl_err_text (rc);
}

void PtlxMac (const uint8_t key[PTLX_KEY_BYTES], const char *person,
              const void *data, size_t length, uint8_t out[PTLX_KEY_BYTES])
{
    ptl_auth_mac (key, person, data, length, out);
}

void PtlxHash (const void *data, size_t length,
               uint8_t out[PTLX_DIGEST_BYTES])
{
    struct ptl_blake2b state;

    ptl_blake2b_init (&state, NULL, NULL);
    ptl_blake2b_update (&state, data, length);
    ptl_blake2b_final (&state, out);
}
