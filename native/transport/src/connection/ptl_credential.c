#include "ptl_credential.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "ptl_above.h"
#include "ptl_shake.h"

static bool put (const struct ptl_conn *conn, const void *data, size_t length)
{
    ssize_t n;

    do
        n = send (conn->source.fd, data, length, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)length;
}

bool ptl_credential_send (struct ptl_conn *conn)
{
    const struct ptl_end *end = conn->end;
    uint8_t m5[PTL_SHAKE_MAX_BYTES];

    ptl_auth_put_m5 (end->credential, end->credential_length, m5);
    conn->shake->step = PTL_AWAIT_M6;
    return put (conn, m5, PTL_START_BYTES + end->credential_length);
}

void ptl_credential_take (struct ptl_conn *conn)
{
    struct ptl_shake *s = conn->shake;
    struct ptl_end *end = conn->end;
    struct ptlx_event event = { .type = PTLX_EVENT_CREDENTIAL };

    if (!end->takes_credentials || !end->notify) {
        ptl_shake_refuse (conn, PTL_CODE_NO_CREDENTIALS);
        return;
    }
    s->step = PTL_AWAIT_ANSWER;
    s->ticket = event.serial = ++end->serial;
    end->above->post (end->notify, &event);
}

struct ptl_conn *ptl_credential_find (const struct ptl_end *end,
                                      uint64_t ticket)
{
    for (struct ptl_node *n = end->conns.next; n != &end->conns; n = n->next) {
        struct ptl_conn *conn = ptl_entry (n, struct ptl_conn, all);

        if (conn->shake && conn->shake->step == PTL_AWAIT_ANSWER
            && conn->shake->ticket == ticket)
            return conn;
    }
    return NULL;
}

void ptl_credential_accept (struct ptl_conn *conn, uint32_t uid,
                            const uint8_t secret[PTLX_KEY_BYTES])
{
    struct ptl_shake *s = conn->shake;
    uint8_t m6[PTL_START_BYTES];

    s->key.kind = PTLX_KEY_MUNGE;
    s->key.uid = uid;
    memcpy (s->key.secret, secret, PTLX_KEY_BYTES);
    s->step = PTL_AWAIT_M1;
    s->have = 0;
    ptl_auth_put_m6 (m6);
    if (!put (conn, m6, sizeof (m6)))
        ptl_conn_close (conn);
}
