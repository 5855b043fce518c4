/* PtlPTDisable waits until nothing is under way on the entry (spec 3.7.3), but
 * not for a peer that has begun a put and then says nothing: after liveness_ms
 * that peer is lost, and its operation ends UNDELIVERABLE. */
#include "raw.h"

int main (void)
{
    struct ptlx_config config = {
        .listen_nid = LOOPBACK,
        .partition_key = test_key,
        .liveness_ms = 50,
    };
    struct ptl_frame frame = raw_put (0, 8, PTL_NO_ACK_REQ);
    uint8_t memory[8] = { 0 }, whole[PTL_HEADER_BYTES + sizeof (memory)];
    const struct ptlx_event *put;
    struct end end;
    struct raw raw;

    end_open_with (&end, &config, 16);
    CHECK (open_table (&end, 0) == 0);
    open_entry (&end, 0, memory, sizeof (memory), 0, PTL_CT_NONE);
    raw = raw_open (&end, RAW_PID, 1, NULL);
    raw_encode (&raw, &frame, memory, whole);
    CHECK (send (raw.fd, whole, sizeof (whole) - 1, 0) > 0);
    raw_drive (&end);
    CHECK (PtlPTDisable (end.ni, 0) == PTL_OK);
    end_take (&end);
    end_take (&end); /* a lost peer comes alone */
    put = event_of (&end, PTL_EVENT_PUT, 0);
    CHECK (put && put->ni_fail == PTL_NI_UNDELIVERABLE);
    CHECK (count_of (&end, PTLX_EVENT_PEER_LOST) == 1);
    close (raw.fd);
    end_close (&end);
    return 0;
}
