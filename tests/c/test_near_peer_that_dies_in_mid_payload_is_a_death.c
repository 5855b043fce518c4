/* What a process had written before it was killed is there; the put that it
 * did not finish ends UNDELIVERABLE, and it is said to have died. */
#include "near_ends.h"

#define BYTES (512u << 20)

static void send_much (struct other *parent)
{
    static uint8_t memory[4096];
    struct end end;
    ptl_process_t target;
    ptl_handle_md_t md;
    uint8_t *much = calloc (1, BYTES);

    CHECK (much);
    other_hear (parent, &target, sizeof (target));
    near_open (&end, 1024);
    open_entry (&end, open_table (&end, 0), memory, sizeof (memory), 0,
                PTL_CT_NONE);
    warm_up (&end, 1, &end, target);
    md = bind_memory (&end, much, BYTES, 0, PTL_CT_NONE);
    CHECK (PtlPut (md, 0, BYTES, PTL_ACK_REQ, target, 1, 0, 0, NULL, 0)
           == PTL_OK);
    pump_until (&end, 1, &end, PTL_EVENT_ACK, 1 << 30);
}

static bool is_in_payload (void *context)
{
    const struct ptl_conn *conn = conn_of (context);

    return conn && conn->open && conn->open[0].is_open
        && conn->open[0].received > 1000000;
}

int main (void)
{
    struct other other = other_start (send_much);
    static uint8_t memory[4096];
    uint8_t *much = malloc (BYTES);
    struct end end;

    near_open (&end, 1024);
    open_entry (&end, open_table (&end, 0), memory, sizeof (memory), 0,
                PTL_CT_NONE);
    open_entry (&end, open_table (&end, 0), much, BYTES, 0, PTL_CT_NONE);
    other_tell (&other, &end.id, sizeof (end.id));
    pump (&end, 1, is_in_payload, &end);
    CHECK (is_shared (&end));
    other_kill (&other);
    pump_until (&end, 1, &end, PTLX_EVENT_PEER_LOST, 1);
    CHECK (event_of (&end, PTLX_EVENT_PEER_LOST, 0)->reason
           == PTLX_LOSS_DIED);
    CHECK (end.log[end.n - 2].type == PTL_EVENT_PUT
           || end.log[end.n - 1].type == PTL_EVENT_PUT);
    for (int i = 0; i < end.n; i++)
        if (end.log[i].type == PTL_EVENT_PUT && end.log[i].pt_index == 1)
            CHECK (end.log[i].ni_fail == PTL_NI_UNDELIVERABLE);
    end_close (&end);
    free (much);
    return 0;
}
