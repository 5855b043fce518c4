/* A long PtlGet reads the entry's memory while its reply is sent. What changes
 * meanwhile is sent as it is then, and is no forgery: with MACs in every frame
 * (FRAMES.md 3.2) the reply arrives and the connection lasts. */
#include "harness.h"

#define LARGE (32u << 20) /* more than sockets hold */

static void open_sealed (struct end *end)
{
    struct ptlx_config config = {
        .listen_nid = LOOPBACK,
        .partition_key = test_key,
        .integrity = PTLX_INTEGRITY_REQUIRED,
    };

    end_open_with (end, &config, 64);
}

static uint64_t sent_by (const struct end *end)
{
    struct ptlx_counters counters;

    CHECK (PtlxCounters (end->ni, &counters) == PTL_OK);
    return counters.bytes_out;
}

/* Until its socket is full: who is to read does not. */
static void send_without_reader (struct end *end)
{
    uint64_t before;

    do {
        before = sent_by (end);
        end_take (end);
    } while (sent_by (end) > before || before < 1u << 16);
}

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    uint8_t *source = calloc (1, LARGE), *target = calloc (1, LARGE);
    const struct ptlx_event *event;
    ptl_handle_md_t md;
    ptl_pt_index_t index;

    open_sealed (a);
    open_sealed (b);
    index = open_table (b, 0);
    open_entry (b, index, source, LARGE, PTL_ME_OP_GET, PTL_CT_NONE);
    md = bind_memory (a, target, LARGE, 0, PTL_CT_NONE);
    CHECK (PtlGet (md, 0, 8, b->id, index, 5, 0, NULL) == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_REPLY, 1);
    CHECK (PtlGet (md, 0, LARGE, b->id, index, 5, 0, NULL) == PTL_OK);
    send_without_reader (b);
    memset (source, 0xff, LARGE);
    pump_until (ends, 2, a, PTL_EVENT_REPLY, 2);
    event = event_of (a, PTL_EVENT_REPLY, 1);
    CHECK (event->ni_fail == PTL_NI_OK && event->mlength == LARGE);
    for (unsigned i = 1; i < LARGE; i++)
        CHECK (target[i] >= target[i - 1]);
    CHECK (target[0] == 0 && target[LARGE - 1] == 0xff);
    CHECK (count_of (a, PTLX_EVENT_PEER_LOST) == 0);
    CHECK (PtlMDRelease (md) == PTL_OK);
    end_close (a);
    end_close (b);
    free (source);
    free (target);
    return 0;
}
