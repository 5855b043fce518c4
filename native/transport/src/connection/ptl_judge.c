#include "ptl_judge.h"

#include <arpa/inet.h>
#include <float.h>
#include <netinet/in.h>
#include <string.h>
#include <time.h>

#include "ptl_near.h"

uint32_t ptl_judge_offers (const struct ptl_conn *conn)
{
    uint32_t bits = (uint32_t)LDBL_MANT_DIG << 16;

    if (conn->end->config.integrity != PTLX_INTEGRITY_OFF)
        bits |= PTL_OFFER_INTEGRITY;
    if (ptl_near_offers (conn))
        bits |= PTL_OFFER_MEMORY;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    bits |= PTL_OFFER_LITTLE_ENDIAN;
#endif
    return bits;
}

bool ptl_judge_is_sealed (const struct ptl_conn *conn)
{
    return conn->shake->theirs.offers & ptl_judge_offers (conn)
        & PTL_OFFER_INTEGRITY;
}

/* May we talk to an end that makes these offers? */
static bool is_safe (const struct ptl_conn *conn)
{
    return conn->end->config.integrity != PTLX_INTEGRITY_REQUIRED
        || ptl_judge_is_sealed (conn);
}

static bool same_job (const struct ptlx_key *key, const struct ptl_hello *h)
{
    return key->kind == PTLX_KEY_JOB && key->job_id == h->job_id
        && key->uid == h->uid && key->expires == h->expires;
}

/* May this connection go without a key? At the address where processes of a
 * host meet only between processes of one user that need none. */
static bool may_be_local (const struct ptl_conn *conn)
{
    if (!conn->is_near)
        return conn->is_unix;
    return ptl_near_takes_keyless (conn->end) && ptl_near_is_own_user (conn);
}

static void derive (const uint8_t *partition_key, struct ptlx_key *key)
{
    if (key->kind == PTLX_KEY_PARTITION)
        memcpy (key->secret, partition_key, sizeof (key->secret));
    else
        ptl_auth_derive (partition_key, key);
}

/* While the partition's key is changed there are several: the one that the
 * hint of m1 is of, else the first. */
static void choose_key (const struct ptl_end *end, const struct ptl_hello *h,
                        struct ptlx_key *key)
{
    for (unsigned i = 0; h->hint && i < end->n_partition_keys; i++) {
        derive (end->partition_keys[i], key);
        if (ptl_auth_hint (key->secret, h->nonce) == h->hint)
            return;
    }
    derive (end->partition_keys[0], key);
}

/* Find the key that m1 names: our own, or one derived from the partition's. */
static enum ptl_code find_key (struct ptl_conn *conn)
{
    const struct ptl_end *end = conn->end;
    const struct ptlx_key *own = &end->default_key;
    const struct ptl_hello *h = &conn->shake->theirs;
    struct ptlx_key *key = &conn->shake->key;

    if (key->kind == PTLX_KEY_MUNGE) /* a credential has proven the user */
        return h->key_kind == key->kind && h->uid == key->uid
                   ? PTL_CODE_READY
                   : PTL_CODE_WRONG_KEY;
    if (h->key_kind == PTLX_KEY_MUNGE)
        return PTL_CODE_NOT_PERMITTED;
    key->kind = h->key_kind;
    key->uid = h->uid;
    key->job_id = h->job_id;
    key->expires = h->expires;
    if (key->kind == PTLX_KEY_LOCAL)
        return may_be_local (conn) ? PTL_CODE_READY : PTL_CODE_NOT_PERMITTED;
    if (key->kind == PTLX_KEY_JOB && (int64_t)h->expires < time (NULL))
        return PTL_CODE_EXPIRED;
    if (end->n_partition_keys > 0) {
        choose_key (end, h, key);
        return PTL_CODE_READY;
    }
    if ((own->kind == PTLX_KEY_USER && key->kind == PTLX_KEY_USER
         && own->uid == h->uid)
        || (key->kind == PTLX_KEY_JOB && same_job (own, h))) {
        memcpy (key->secret, own->secret, sizeof (key->secret));
        return PTL_CODE_READY;
    }
    return PTL_CODE_WRONG_KEY;
}

/* Note whom the proven key stands for. LOCAL: whom the kernel names. */
bool ptl_judge_principal (struct ptl_conn *conn)
{
    const struct ptlx_key *key = &conn->shake->key;
    struct ucred cred;
    socklen_t size = sizeof (cred);

    conn->who.kind = key->kind;
    conn->who.uid = key->kind == PTLX_KEY_PARTITION ? conn->shake->theirs.uid
                                                    : key->uid;
    conn->who.job_id = key->kind == PTLX_KEY_JOB ? key->job_id : 0;
    if (key->kind == PTLX_KEY_MUNGE)
        conn->who.kind = PTLX_KEY_USER;
    if (key->kind != PTLX_KEY_LOCAL)
        return true;
    if (getsockopt (conn->source.fd, SOL_SOCKET, SO_PEERCRED, &cred, &size))
        return false;
    conn->who.kind = PTLX_KEY_USER;
    conn->who.uid = cred.uid;
    return true;
}

static bool is_intended (uint32_t nid, uint32_t pid, uint32_t own_nid,
                         uint32_t own_pid)
{
    return (nid == PTL_NID_ANY || nid == own_nid)
        && (pid == PTL_PID_ANY || pid == own_pid);
}

/* A host has several addresses: the one that was dialled is accepted, too. */
static bool is_dialled_address (const struct ptl_conn *conn, uint32_t nid,
                                uint32_t pid)
{
    struct sockaddr_in in = { 0 };
    socklen_t size = sizeof (in);

    return !conn->is_unix
        && getsockname (conn->source.fd, (struct sockaddr *)&in, &size) == 0
        && in.sin_family == AF_INET && ntohl (in.sin_addr.s_addr) == nid
        && ntohs (in.sin_port) == pid;
}

uint8_t ptl_judge_version (const struct ptl_end *end,
                           const struct ptl_hello *h)
{
    uint8_t max = h->version_max < end->config.version_max
                      ? h->version_max
                      : end->config.version_max;

    return max >= h->version_min && max >= end->config.version_min ? max : 0;
}

enum ptl_code ptl_judge_m1 (struct ptl_conn *conn)
{
    struct ptl_shake *s = conn->shake;

    if (ptl_auth_get_hello (1, s->m1, &s->theirs) != PTL_OK
        || s->theirs.version != 0)
        return PTL_CODE_MALFORMED;
    if (!ptl_judge_version (conn->end, &s->theirs))
        return PTL_CODE_WRONG_VERSION;
    if ((!is_intended (s->theirs.intended_nid, s->theirs.intended_pid,
                       conn->end->self.nid, conn->end->self.pid)
         && !is_dialled_address (conn, s->theirs.intended_nid,
                                 s->theirs.intended_pid))
        || s->theirs.incarnation == conn->end->incarnation)
        return PTL_CODE_WRONG_PEER;
    if (!is_safe (conn))
        return PTL_CODE_INTEGRITY;
    return find_key (conn);
}

uint32_t ptl_judge_m2 (struct ptl_conn *conn)
{
    const struct ptl_end *end = conn->end;
    struct ptl_shake *s = conn->shake;
    uint8_t tag[PTL_TAG_BYTES];

    if (ptl_auth_get_hello (2, s->m2, &s->theirs) != PTL_OK)
        return PTLX_LOSS_MISBEHAVED;
    ptl_auth_listener_tag (s->key.secret, s->m1, s->m2, tag);
    if (!ptl_auth_equal (tag, s->m2 + PTL_HELLO_BYTES, sizeof (tag))
        || s->theirs.key_kind != s->key.kind)
        return PTLX_LOSS_WRONG_KEY;
    if (s->theirs.version < end->config.version_min
        || s->theirs.version > end->config.version_max)
        return PTLX_LOSS_WRONG_VERSION;
    if (!is_intended (s->intended_nid, s->intended_pid, s->theirs.nid,
                      s->theirs.pid)
        || s->theirs.incarnation == end->incarnation)
        return PTLX_LOSS_WRONG_PEER;
    return is_safe (conn) ? 0 : PTLX_LOSS_REFUSED;
}

uint32_t ptl_judge_loss (uint8_t code)
{
    switch (code) {
    case PTL_CODE_WRONG_VERSION:
        return PTLX_LOSS_WRONG_VERSION;
    case PTL_CODE_WRONG_KEY:
    case PTL_CODE_EXPIRED:
        return PTLX_LOSS_WRONG_KEY;
    case PTL_CODE_WRONG_PEER:
        return PTLX_LOSS_WRONG_PEER;
    case PTL_CODE_NO_CREDENTIALS:
    case PTL_CODE_CREDENTIAL:
    case PTL_CODE_CREDENTIAL_OLD:
    case PTL_CODE_CREDENTIAL_USED:
    case PTL_CODE_NO_JUDGE:
        return PTLX_LOSS_CREDENTIAL;
    default:
        return PTLX_LOSS_REFUSED;
    }
}
