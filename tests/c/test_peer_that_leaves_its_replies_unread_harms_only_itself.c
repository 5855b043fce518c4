/* A peer gets and gets, or fetches, and reads none of the replies: what is
 * kept for it is bounded, it is cut off once it has asked for more than
 * FRAMES.md lets it, its entry is not busy afterwards, and a neighbour is
 * served meanwhile.
 * link: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free
 */
#include "memory.h"
#include "raw.h"

#define MOST_ASKED 100000
#define MOST_BYTES (6u << 20)
#define LARGE (1u << 20)

static struct end ends[2], *end = &ends[0], *neighbour = &ends[1];
static uint8_t memory[LARGE], payload[65536], copy[64];

static void ask_until_cut_off (const struct ptl_frame *frame)
{
    static uint64_t incarnation;
    struct raw raw;
    size_t before;
    int n = 0;

    raw_is_narrow = true;
    raw = raw_open (end, RAW_PID, ++incarnation, NULL);
    before = memory_used;
    while (raw_frame (&raw, end, frame, payload)) {
        CHECK (n++ < MOST_ASKED);
        raw_drive (end);
        CHECK (memory_used < before + MOST_BYTES);
        end->n = 0;
    }
    close (raw.fd);
    raw_drive (end);
}

int main (void)
{
    struct ptl_frame ask = {
        .type = PTL_FRAME_GET,
        .flags = PTL_FLAG_FIRST | PTL_FLAG_LAST,
        .lane = PTL_LANE_DATA,
    };
    ptl_handle_md_t md;
    ptl_handle_me_t me;

    end_open (end, 64);
    end_open (neighbour, 64);
    CHECK (open_table (end, 0) == 0);
    me = open_entry (end, 0, memory, LARGE, PTL_ME_OP_GET, PTL_CT_NONE);
    ask.total = 8; /* a copy */
    ask_until_cut_off (&ask);
    ask.total = LARGE; /* from the memory */
    ask_until_cut_off (&ask);
    ask.type = PTL_FRAME_FETCH; /* a large copy */
    ask.operation = PTL_SUM;
    ask.datatype = PTL_UINT8_T;
    ask.total = ask.length = sizeof (payload);
    ask_until_cut_off (&ask);
    md = bind_memory (neighbour, copy, sizeof (copy), 0, PTL_CT_NONE);
    CHECK (PtlGet (md, 0, 64, end->id, 0, 0, 0, NULL) == PTL_OK);
    pump_until (ends, 2, neighbour, PTL_EVENT_REPLY, 1);
    CHECK (event_of (neighbour, PTL_EVENT_REPLY, 0)->ni_fail == PTL_NI_OK);
    CHECK (PtlMEUnlink (me) == PTL_OK);
    end_close (neighbour);
    end_close (end);
    return 0;
}
