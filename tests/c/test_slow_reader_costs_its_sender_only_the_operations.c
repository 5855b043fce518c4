/* Two thousand puts to a peer that reads nothing: no payload is copied, only
 * the operations are kept, and a neighbour is served meanwhile. When it reads
 * and acknowledges after all, each of them ends well.
 * link: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free
 */
#include "memory.h"
#include "raw.h"

#define PUTS 2000
#define EACH 60000u
#define OPERATION_BYTES 512

static uint8_t source[EACH], payload[EACH], neighbour_memory[8];

static void read_and_acknowledge (struct raw *raw, struct end *end)
{
    struct ptl_frame put, ack = { .type = PTL_FRAME_ACK };

    for (int i = 0; i < PUTS; i++) {
        CHECK (raw_answer (raw, end, &put) && put.type == PTL_FRAME_PUT);
        CHECK (put.length == EACH && put.total == EACH);
        CHECK (raw_take (end, raw->fd, payload, put.length));
        CHECK (memcmp (payload, source, EACH) == 0);
        ack.op_index = put.op_index;
        ack.op_generation = put.op_generation;
        ack.total = put.total;
        CHECK (raw_frame (raw, end, &ack, NULL));
    }
}

int main (void)
{
    struct end ends[2], *end = &ends[0], *neighbour = &ends[1];
    ptl_process_t to = { .phys = { LOOPBACK, RAW_PID } };
    struct raw raw;
    ptl_handle_md_t md;
    size_t before;

    memset (source, 0x5a, sizeof (source));
    end_open (end, 2 * MAX_LOG);
    end_open (neighbour, 64);
    CHECK (open_table (neighbour, 0) == 0);
    open_entry (neighbour, 0, neighbour_memory, 8, 0, PTL_CT_NONE);
    raw = raw_open (end, RAW_PID, 1, NULL);
    md = bind_memory (end, source, EACH, 0, PTL_CT_NONE);
    before = memory_used;
    for (int i = 0; i < PUTS; i++)
        CHECK (PtlPut (md, 0, EACH, PTL_ACK_REQ, to, 3, 0, 0, NULL, 0)
               == PTL_OK);
    raw_drive (end);
    CHECK (memory_used - before <= PUTS * OPERATION_BYTES);
    CHECK (PtlPut (md, 0, 8, PTL_ACK_REQ, neighbour->id, 0, 0, 0, NULL, 0)
           == PTL_OK);
    pump_until (ends, 2, end, PTL_EVENT_ACK, 1);
    CHECK (neighbour_memory[7] == 0x5a);
    read_and_acknowledge (&raw, end);
    pump_until (ends, 2, end, PTL_EVENT_ACK, PUTS + 1);
    for (int i = 0; i < end->n; i++)
        CHECK (end->log[i].ni_fail == PTL_NI_OK);
    CHECK (count_of (end, PTL_EVENT_SEND) == PUTS + 1);
    close (raw.fd);
    end_close (neighbour);
    end_close (end);
    return 0;
}
