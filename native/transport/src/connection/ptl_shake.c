#include "ptl_shake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "ptl_admit.h"
#include "ptl_alive.h"
#include "ptl_conn.h"
#include "ptl_credential.h"
#include "ptl_judge.h"
#include "ptl_peer.h"
#include "ptl_seal.h"
#include "ptl_share.h"

static bool begin (struct ptl_conn *conn, enum ptl_shake_step step)
{
    if (!(conn->shake = calloc (1, sizeof (*conn->shake))))
        return false;
    conn->shake->step = step;
    conn->shake->place.conn = conn;
    return true;
}

bool ptl_shake_listen (struct ptl_conn *conn, uint64_t origin)
{
    return begin (conn, PTL_AWAIT_M1)
        && ptl_unproven_enter (conn->end, origin, &conn->shake->place);
}

bool ptl_shake_dial (struct ptl_conn *conn, const struct ptlx_key *key,
                     uint32_t nid, uint32_t pid)
{
    if (!begin (conn, PTL_AWAIT_M2))
        return false;
    conn->shake->key = *key;
    conn->shake->intended_nid = nid;
    conn->shake->intended_pid = pid;
    return true;
}

void ptl_shake_free (struct ptl_conn *conn)
{
    if (!conn->shake)
        return;
    ptl_unproven_leave (conn->end, &conn->shake->place);
    explicit_bzero (conn->shake, sizeof (*conn->shake));
    free (conn->shake);
    conn->shake = NULL;
}

/* Send a whole message. It fits the empty buffer of any new socket, so a
 * partial write is a failure. */
static bool put (struct ptl_conn *conn, const void *data, size_t length)
{
    ssize_t n;

    do
        n = send (conn->source.fd, data, length, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)length;
}

/* Writing failed. The other end may have sent a reason before it hung up. */
static void hear_why (struct ptl_conn *conn, int error)
{
    ptl_shake_read (conn);
    if (conn->state == PTL_CONN_SHAKING)
        ptl_conn_fail (conn, PTLX_LOSS_DIED, error);
}

/* Our half of the exchange. False: the system gave no random bytes. */
static bool fill_hello (const struct ptl_conn *conn, struct ptl_hello *hello)
{
    const struct ptl_end *end = conn->end;
    const struct ptlx_key *key = &conn->shake->key;

    memset (hello, 0, sizeof (*hello));
    hello->version_min = end->config.version_min;
    hello->version_max = end->config.version_max;
    hello->key_kind = (uint8_t)key->kind;
    hello->uid = key->kind == PTLX_KEY_PARTITION ? end->config.uid : key->uid;
    hello->job_id = key->job_id;
    hello->expires = key->expires;
    hello->nid = end->self.nid;
    hello->pid = end->self.pid;
    hello->incarnation = end->incarnation;
    hello->intended_nid = conn->shake->intended_nid;
    hello->intended_pid = conn->shake->intended_pid;
    hello->offers = ptl_judge_offers (conn);
    if (getrandom (hello->nonce, sizeof (hello->nonce), 0)
        != sizeof (hello->nonce))
        return false;
    if (conn->is_dialled && key->kind != PTLX_KEY_LOCAL)
        hello->hint = ptl_auth_hint (key->secret, hello->nonce);
    return true;
}

static void send_m1 (struct ptl_conn *conn)
{
    struct ptl_hello hello;

    conn->shake->step = PTL_AWAIT_M2;
    if (!fill_hello (conn, &hello)) {
        ptl_conn_fail (conn, PTLX_LOSS_UNREACHABLE, errno);
        return;
    }
    ptl_auth_put_hello (1, &hello, conn->shake->m1);
    if (!put (conn, conn->shake->m1, PTL_M1_BYTES))
        hear_why (conn, errno);
}

void ptl_shake_connected (struct ptl_conn *conn)
{
    conn->state = PTL_CONN_SHAKING;
    if (conn->shake->key.kind != PTLX_KEY_MUNGE)
        send_m1 (conn);
    else if (!ptl_credential_send (conn))
        hear_why (conn, errno);
}

void ptl_shake_say_no (const struct ptl_end *end, int fd, enum ptl_code code)
{
    uint8_t m4[PTL_M4_BYTES], unread[PTL_SHAKE_MAX_BYTES];

    ptl_auth_put_m4 (NULL, (uint8_t)code, end->config.version_min,
                     end->config.version_max, m4);
    (void)!send (fd, m4, sizeof (m4), MSG_NOSIGNAL);
    /* To close a socket with bytes unread would reset the connection. */
    (void)!recv (fd, unread, sizeof (unread), MSG_DONTWAIT);
}

void ptl_shake_refuse (struct ptl_conn *conn, enum ptl_code code)
{
    ptl_shake_say_no (conn->end, conn->source.fd, code);
    ptl_conn_close (conn);
}

static void take_m1 (struct ptl_conn *conn)
{
    struct ptl_shake *s = conn->shake;
    struct ptl_hello hello;
    enum ptl_code code;

    memcpy (s->m1, s->in, PTL_M1_BYTES);
    if ((code = ptl_judge_m1 (conn)) != PTL_CODE_READY) {
        ptl_shake_refuse (conn, code);
        return;
    }
    s->intended_nid = s->theirs.nid;
    s->intended_pid = s->theirs.pid;
    if (!fill_hello (conn, &hello)) {
        ptl_conn_close (conn);
        return;
    }
    if (s->theirs.intended_pid != PTL_PID_ANY) { /* known by that name there */
        hello.nid = s->theirs.intended_nid;
        hello.pid = s->theirs.intended_pid;
    }
    hello.version = ptl_judge_version (conn->end, &s->theirs);
    ptl_auth_put_hello (2, &hello, s->m2);
    ptl_auth_listener_tag (s->key.secret, s->m1, s->m2,
                           s->m2 + PTL_HELLO_BYTES);
    s->step = PTL_AWAIT_M3;
    if (!put (conn, s->m2, PTL_M2_BYTES))
        ptl_conn_close (conn);
}

static void take_m2 (struct ptl_conn *conn)
{
    struct ptl_shake *s = conn->shake;
    uint32_t loss;

    memcpy (s->m2, s->in, PTL_M2_BYTES);
    if ((loss = ptl_judge_m2 (conn)) != 0) {
        ptl_conn_fail (conn, loss, 0);
        return;
    }
    ptl_auth_put_m3 (s->key.secret, s->m1, s->m2, s->m3);
    s->step = PTL_AWAIT_M4;
    if (!put (conn, s->m3, PTL_M3_BYTES))
        hear_why (conn, errno);
}

/* Derive the keys from the whole exchange, which has both ends' offers. */
static bool make_seal (struct ptl_conn *conn)
{
    const struct ptl_shake *s = conn->shake;
    uint8_t to_listener[PTLX_KEY_BYTES], to_dialler[PTLX_KEY_BYTES];

    ptl_auth_session (s->key.secret, "yod.c2s", s->m1, s->m2, s->m3,
                      to_listener);
    ptl_auth_session (s->key.secret, "yod.s2c", s->m1, s->m2, s->m3,
                      to_dialler);
    conn->seal = conn->is_dialled ? ptl_seal_alloc (to_dialler, to_listener)
                                  : ptl_seal_alloc (to_listener, to_dialler);
    explicit_bzero (to_listener, sizeof (to_listener));
    explicit_bzero (to_dialler, sizeof (to_dialler));
    return conn->seal != NULL;
}

/* The handshake is done: frames follow. False: no memory, connection lost. */
static bool become_ready (struct ptl_conn *conn)
{
    if (ptl_judge_is_sealed (conn) && !make_seal (conn)) {
        ptl_conn_fail (conn, PTLX_LOSS_DIED, ENOMEM);
        return false;
    }
    conn->incarnation = conn->shake->theirs.incarnation;
    conn->shares = (conn->shake->theirs.offers & ptl_judge_offers (conn))
        & (ptl_judge_is_sealed (conn) ? 0 : PTL_OFFER_MEMORY);
    conn->state = PTL_CONN_READY;
    conn->deadline_ms = 0;
    ptl_shake_free (conn);
    ptl_alive_begin (conn);
    return true;
}

static void answer_m3 (struct ptl_conn *conn, enum ptl_code code)
{
    struct ptl_shake *s = conn->shake;
    uint8_t session[PTLX_KEY_BYTES], m4[PTL_M4_BYTES];

    ptl_auth_session (s->key.secret, "yod.s2c", s->m1, s->m2, s->m3, session);
    ptl_auth_put_m4 (session, (uint8_t)code, conn->end->config.version_min,
                     conn->end->config.version_max, m4);
    explicit_bzero (session, sizeof (session));
    if (put (conn, m4, sizeof (m4)) && code == PTL_CODE_READY) {
        if (become_ready (conn))
            ptl_peer_connected (conn->peer);
    }
    else {
        ptl_conn_fail (conn, PTLX_LOSS_DIED, errno);
    }
}

/* False: the user has as many connections as they may have. */
static bool enter_share (struct ptl_conn *conn)
{
    const struct ptlx_config *c = &conn->end->config;

    if ((c->max_connections_each == 0 && c->max_unread_each == 0)
        || !ptl_share_is_for (&conn->who))
        return true;
    conn->share = ptl_share_enter (conn->end, conn->who.uid);
    return conn->share != NULL;
}

static void take_m3 (struct ptl_conn *conn)
{
    struct ptl_shake *s = conn->shake;
    enum ptl_code code;

    ptl_auth_put_m3 (s->key.secret, s->m1, s->m2, s->m3);
    if (!ptl_auth_equal (s->m3, s->in, PTL_M3_BYTES)) {
        ptl_shake_refuse (conn, PTL_CODE_WRONG_KEY);
        return;
    }
    if (!ptl_judge_principal (conn)) {
        ptl_shake_refuse (conn, PTL_CODE_NOT_PERMITTED);
        return;
    }
    if (!enter_share (conn)) {
        ptl_shake_refuse (conn, PTL_CODE_CONNECTIONS);
        return;
    }
    conn->incarnation = s->theirs.incarnation;
    code = ptl_admit (conn, s->theirs.nid, s->theirs.pid);
    answer_m3 (conn, code);
}

/* A refusal is only told to the user. "Ready" and "collision" have effects, so
 * they carry a proof. */
static void take_m4 (struct ptl_conn *conn)
{
    struct ptl_shake *s = conn->shake;
    uint8_t session[PTLX_KEY_BYTES], m4[PTL_M4_BYTES];
    uint8_t code = s->in[5];

    if (code == PTL_CODE_FULL || code == PTL_CODE_SHARE
        || code == PTL_CODE_CONNECTIONS) {
        ptl_peer_turned_away (conn->peer, code);
        return;
    }
    if (code > PTL_CODE_COLLISION) {
        ptl_conn_fail (conn, ptl_judge_loss (code),
                       ptl_judge_loss (code) == PTLX_LOSS_CREDENTIAL
                               || code == PTL_CODE_EXPIRED
                           ? code
                           : s->in[6] << 8 | s->in[7]);
        return;
    }
    ptl_auth_session (s->key.secret, "yod.s2c", s->m1, s->m2, s->m3, session);
    ptl_auth_put_m4 (session, code, s->in[6], s->in[7], m4);
    explicit_bzero (session, sizeof (session));
    if (s->step != PTL_AWAIT_M4
        || !ptl_auth_equal (m4, s->in, PTL_M4_BYTES)) {
        ptl_conn_fail (conn, PTLX_LOSS_MISBEHAVED, 0);
        return;
    }
    if (code == PTL_CODE_COLLISION) {
        ptl_peer_collided (conn->peer);
        return;
    }
    if (!ptl_judge_principal (conn)) {
        ptl_conn_fail (conn, PTLX_LOSS_WRONG_KEY, errno);
        return;
    }
    if (become_ready (conn))
        ptl_peer_connected (conn->peer);
}

static void take (struct ptl_conn *conn, uint8_t message)
{
    if (message != 5) /* the credential is read when it is judged */
        conn->shake->have = 0;
    if (message == 1 && conn->shake->step == PTL_AWAIT_M1)
        take_m1 (conn);
    else if (message == 2 && conn->shake->step == PTL_AWAIT_M2)
        take_m2 (conn);
    else if (message == 3 && conn->shake->step == PTL_AWAIT_M3)
        take_m3 (conn);
    else if (message == 4 && conn->is_dialled)
        take_m4 (conn);
    else if (message == 5 && conn->shake->step == PTL_AWAIT_M1
             && conn->shake->key.kind == PTLX_KEY_NONE)
        ptl_credential_take (conn);
    else if (message == 6 && conn->shake->step == PTL_AWAIT_M6)
        send_m1 (conn);
    else
        ptl_conn_fail (conn, PTLX_LOSS_MISBEHAVED, 0);
}

/* Read exactly to the end of a message: frames come behind the last one. */
void ptl_shake_read (struct ptl_conn *conn)
{
    struct ptl_shake *s = conn->shake;
    size_t wanted = 8;
    ssize_t n;

    if (s->step == PTL_AWAIT_ANSWER) { /* it has hung up, or cannot wait */
        ptl_conn_fail (conn, PTLX_LOSS_MISBEHAVED, 0);
        return;
    }
    for (;;) {
        if (s->have >= 8 && !(wanted = ptl_auth_length (s->in))) {
            ptl_conn_fail (conn, PTLX_LOSS_MISBEHAVED, 0);
            return;
        }
        if (s->have == wanted) {
            take (conn, s->in[4]);
            return;
        }
        n = recv (conn->source.fd, s->in + s->have, wanted - s->have, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0) {
            ptl_conn_fail (conn, PTLX_LOSS_DIED, n < 0 ? errno : 0);
            return;
        }
        s->have += (size_t)n;
    }
}
