/* FRAMES.md 3, rules 3 and 8: a reply with more bytes than were asked for, for
 * another's or no operation, of a put, a second one, one out of turn, or an ack
 * of a get cuts the peer off; the get ends UNDELIVERABLE and a neighbour is
 * served. */
#include "raw.h"

#define WHOLE (PTL_FLAG_FIRST | PTL_FLAG_LAST)

static struct end ends[2], *end = &ends[0], *neighbour = &ends[1];
static uint8_t memory[64], zeros[64];
static ptl_handle_md_t md;

/* A GET of 16 bytes, or a put of none with an ack, as it comes to the peer. */
static struct ptl_frame ask (struct raw *raw, bool is_get)
{
    ptl_process_t id = { .phys = { LOOPBACK, RAW_PID } };
    struct ptl_frame frame;

    memset (memory, 1, sizeof (memory));
    if (is_get)
        CHECK (PtlGet (md, 0, 16, id, 3, 4, 5, NULL) == PTL_OK);
    else
        CHECK (PtlPut (md, 0, 0, PTL_ACK_REQ, id, 3, 4, 5, NULL, 6) == PTL_OK);
    CHECK (raw_answer (raw, end, &frame));
    CHECK (frame.type == (is_get ? PTL_FRAME_GET : PTL_FRAME_PUT));
    CHECK (frame.pt_index == 3 && frame.match_bits == 4 && frame.offset == 5);
    CHECK (frame.total == (is_get ? 16 : 0) && frame.flags == WHOLE);
    return frame;
}

static struct ptl_frame reply_to (const struct ptl_frame *asked,
                                  uint32_t length)
{
    return (struct ptl_frame){
        .type = PTL_FRAME_REPLY,
        .flags = WHOLE,
        .lane = PTL_LANE_DATA,
        .length = length,
        .total = length,
        .op_index = asked->op_index,
        .op_generation = asked->op_generation,
    };
}

static void give (struct raw *raw, const struct ptl_frame *frame)
{
    raw_frame (raw, end, frame, zeros);
    raw_drive (end);
}

static bool has_first_half (void *context)
{
    (void)context;
    return memory[7] == 0;
}

static void is_cut_off (struct raw *raw, uint32_t answer)
{
    struct ptl_frame frame;

    pump_until (ends, 2, end, PTLX_EVENT_PEER_LOST, 1);
    CHECK (event_of (end, PTLX_EVENT_PEER_LOST, 0)->reason
           == PTLX_LOSS_MISBEHAVED);
    if (answer)
        CHECK (event_of (end, answer, 0)->ni_fail == PTL_NI_UNDELIVERABLE);
    CHECK (!raw_answer (raw, end, &frame));
    close (raw->fd);
    end->n = 0;
}

static struct raw open_peer (void)
{
    static uint64_t incarnation;

    return raw_open (end, RAW_PID, ++incarnation, NULL);
}

int main (void)
{
    struct ptl_frame asked, lie;
    struct raw raw;

    end_open (end, 64);
    end_open (neighbour, 64);
    CHECK (open_table (end, 0) == 0);
    md = bind_memory (end, memory, sizeof (memory), 0, PTL_CT_NONE);

    raw = open_peer (); /* an honest one */
    asked = ask (&raw, true);
    lie = reply_to (&asked, 16);
    give (&raw, &lie);
    pump_until (ends, 2, end, PTL_EVENT_REPLY, 1);
    CHECK (event_of (end, PTL_EVENT_REPLY, 0)->ni_fail == PTL_NI_OK);
    CHECK (memory[15] == 0 && memory[16] == 1);
    end->n = 0;
    give (&raw, &lie); /* again */
    is_cut_off (&raw, 0);

    raw = open_peer ();
    asked = ask (&raw, true);
    lie = reply_to (&asked, 17);
    give (&raw, &lie);
    is_cut_off (&raw, PTL_EVENT_REPLY);
    CHECK (memory[0] == 1); /* nothing was written */

    raw = open_peer ();
    asked = ask (&raw, true);
    lie = reply_to (&asked, 16);
    lie.op_generation++;
    give (&raw, &lie);
    is_cut_off (&raw, PTL_EVENT_REPLY);

    raw = open_peer ();
    asked = ask (&raw, true);
    lie = reply_to (&asked, 16);
    lie.op_index = 12345;
    give (&raw, &lie);
    is_cut_off (&raw, PTL_EVENT_REPLY);

    raw = open_peer ();
    asked = ask (&raw, false);
    lie = reply_to (&asked, 0);
    give (&raw, &lie);
    is_cut_off (&raw, PTL_EVENT_ACK);

    raw = open_peer ();
    asked = ask (&raw, true);
    lie = reply_to (&asked, 0);
    lie.type = PTL_FRAME_ACK;
    lie.flags = 0;
    give (&raw, &lie);
    is_cut_off (&raw, PTL_EVENT_REPLY);

    raw = open_peer (); /* its fragments in disorder */
    asked = ask (&raw, true);
    lie = reply_to (&asked, 8);
    lie.total = 16;
    lie.flags = PTL_FLAG_FIRST;
    give (&raw, &lie);
    pump (ends, 2, has_first_half, NULL);
    CHECK (memory[8] == 1);
    lie.flags = PTL_FLAG_LAST;
    lie.offset = 8;
    lie.fragment = 2;
    give (&raw, &lie);
    is_cut_off (&raw, PTL_EVENT_REPLY);
    CHECK (memory[8] == 1);

    raw = open_peer (); /* another length in the second */
    asked = ask (&raw, true);
    lie = reply_to (&asked, 8);
    lie.total = 12;
    lie.flags = PTL_FLAG_FIRST;
    give (&raw, &lie);
    lie.flags = PTL_FLAG_LAST;
    lie.offset = 8;
    lie.fragment = 1;
    lie.total = 16;
    give (&raw, &lie);
    is_cut_off (&raw, PTL_EVENT_REPLY);

    CHECK (PtlPut (bind_memory (neighbour, zeros, 8, 0, PTL_CT_NONE), 0, 8,
                   PTL_ACK_REQ, end->id, 0, 0, 0, NULL, 0)
           == PTL_OK);
    pump_until (ends, 2, neighbour, PTL_EVENT_ACK, 1);
    CHECK (PtlMDRelease (md) == PTL_OK);
    end_close (neighbour);
    end_close (end);
    return 0;
}
