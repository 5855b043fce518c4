/* A count that cannot be, or bytes that are no frame: the peer has misbehaved,
 * and a neighbour does not notice. */
#include "near_ends.h"

#define BAD 3
#define WRITTEN 0
#define TAKEN 1
#define GO_ON 1 /* what the parent tells */

static int kind; /* of nonsense; inherited */

static void spoil (struct ptl_near *near)
{
    static uint8_t bytes[4096];
    struct iovec part = { bytes, sizeof (bytes) };

    memset (bytes, 0xee, sizeof (bytes));
    if (kind == WRITTEN)
        near->shm.out.shared->written += 1u << 30;
    else if (kind == TAKEN)
        near->shm.in.shared->taken -= 4096;
    else
        ptl_ring_write (&near->shm.out, &part, 1);
    ptl_shm_wake (&near->shm);
}

static void misbehave (struct other *parent)
{
    struct end end;
    ptl_process_t target;
    char told;

    other_hear (parent, &target, sizeof (target));
    near_open (&end, 1024);
    warm_up (&end, 1, &end, target);
    spoil (conn_of (&end)->near);
    other_tell (parent, &end.id, sizeof (end.id));
    other_hear (parent, &told, 1); /* and keep still */
    _exit (0);
}

static void behave (struct other *parent)
{
    struct end end;
    ptl_process_t target;
    char told = GO_ON;

    other_hear (parent, &target, sizeof (target));
    near_open (&end, 1024);
    warm_up (&end, 1, &end, target);
    other_tell (parent, &told, 1);
    other_hear (parent, &told, 1);
    for (int i = 0; i < 10; i++)
        warm_up (&end, 1, &end, target);
    end_close (&end);
}

struct hearing {
    const struct other *other;
    size_t length;
    uint8_t data[64];
};

static bool has_heard (void *context)
{
    struct hearing *hearing = context;
    struct pollfd fd = { hearing->other->from, POLLIN, 0 };

    if (poll (&fd, 1, 0) != 1)
        return false;
    other_hear (hearing->other, hearing->data, hearing->length);
    return true;
}

/* Serve the end while the other process gets on. */
static void serve_until_heard (struct end *end, const struct other *other,
                               size_t length)
{
    struct hearing hearing = { .other = other, .length = length };

    pump (end, 1, has_heard, &hearing);
}

int main (void)
{
    struct other good = other_start (behave), bad[BAD];
    static uint8_t memory[4096], data[4096];
    struct end end;
    ptl_process_t bad_id;
    ptl_handle_md_t md;
    char told = GO_ON;

    for (kind = 0; kind < BAD; kind++)
        bad[kind] = other_start (misbehave);
    near_open (&end, 1024);
    open_entry (&end, open_table (&end, 0), memory, sizeof (memory), 0,
                PTL_CT_NONE);
    md = bind_memory (&end, data, sizeof (data), 0, PTL_CT_NONE);
    other_tell (&good, &end.id, sizeof (end.id));
    serve_until_heard (&end, &good, 1);
    for (int i = 0; i < BAD; i++) {
        struct hearing hearing = { &bad[i], sizeof (bad_id), { 0 } };

        other_tell (&bad[i], &end.id, sizeof (end.id));
        pump (&end, 1, has_heard, &hearing);
        memcpy (&bad_id, hearing.data, sizeof (bad_id));
        /* Who lies about what it has taken is found out by a writer. */
        for (int k = 0; i == TAKEN && k < 200; k++)
            PtlPut (md, 0, sizeof (data), PTL_NO_ACK_REQ, bad_id, 0, 0, 0,
                    NULL, 0);
        pump_until (&end, 1, &end, PTLX_EVENT_PEER_LOST, i + 1);
        CHECK (event_of (&end, PTLX_EVENT_PEER_LOST, i)->reason
               == PTLX_LOSS_MISBEHAVED);
        other_tell (&bad[i], &told, 1);
        other_end (&bad[i]);
    }
    other_tell (&good, &told, 1);
    pump_until (&end, 1, &end, PTLX_EVENT_PEER_LOST, BAD + 1);
    CHECK (event_of (&end, PTLX_EVENT_PEER_LOST, BAD)->reason
           == PTLX_LOSS_CLOSED);
    other_end (&good);
    end_close (&end);
    return 0;
}
