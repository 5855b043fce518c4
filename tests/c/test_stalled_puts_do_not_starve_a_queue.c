/* A queue promises room to a put when it begins. A peer that begins puts and goes
 * on with none of them may do so for as long as nobody else lacks that room;
 * then, after liveness_ms, it is lost, and its puts end UNDELIVERABLE. Who has
 * kept no room may be silent. */
#include "raw.h"

#define SLOTS 8
#define LIVENESS_MS 50

static uint8_t memory[64];

static bool is_later (void *context)
{
    return now_ms () > *(int64_t *)context;
}

static void let_time_pass (struct end *end)
{
    int64_t later = now_ms () + 3 * LIVENESS_MS;

    pump (end, 1, is_later, &later);
}

/* The first fragment of a put that has another. */
static void begin (struct raw *raw, struct end *end, uint32_t number)
{
    struct ptl_frame frame = raw_put (0, 8, PTL_NO_ACK_REQ);

    frame.flags = PTL_FLAG_FIRST;
    frame.total = 16;
    frame.op_index = number;
    CHECK (raw_frame (raw, end, &frame, memory));
}

int main (void)
{
    struct ptlx_config config = {
        .listen_nid = LOOPBACK,
        .partition_key = test_key,
        .liveness_ms = LIVENESS_MS,
    };
    const struct ptlx_event *lost;
    struct raw stalled, other;
    struct end end;
    int n_refused = 0;

    end_open_with (&end, &config, SLOTS);
    CHECK (open_table (&end, PTL_PT_FLOWCTRL) == 0);
    open_entry (&end, 0, memory, sizeof (memory), 0, PTL_CT_NONE);
    stalled = raw_open (&end, RAW_PID, 1, NULL);
    other = raw_open (&end, RAW_PID + 1, 2, NULL);
    for (uint32_t i = 0; i < SLOTS; i++)
        begin (&stalled, &end, i);
    raw_drive (&end);
    let_time_pass (&end);
    CHECK (count_of (&end, PTLX_EVENT_PEER_LOST) == 0);

    /* Where this process was not let run, that time does not count. */
    while (raw_verdict (&other, &end, memory) == PTL_NI_PT_DISABLED) {
        n_refused++;
        let_time_pass (&end);
        CHECK (PtlPTEnable (end.ni, 0) == PTL_OK);
    }
    CHECK (n_refused > 0);
    lost = event_of (&end, PTLX_EVENT_PEER_LOST, 0);
    CHECK (lost->pid == RAW_PID && lost->reason == PTLX_LOSS_DIED
           && lost->detail == ETIMEDOUT);
    CHECK (event_of (&end, PTL_EVENT_PUT, 0)->ni_fail
           == PTL_NI_UNDELIVERABLE);
    CHECK (count_of (&end, PTL_EVENT_PT_DISABLED) == n_refused);
    pump_until (&end, 1, &end, PTL_EVENT_PUT, SLOTS + 1);
    CHECK (event_of (&end, PTL_EVENT_PUT, SLOTS)->ni_fail == PTL_NI_OK);
    CHECK (count_of (&end, PTLX_EVENT_PEER_LOST) == 1);
    close (stalled.fd);
    close (other.fd);
    end_close (&end);
    return 0;
}
