/* A peer puts and puts and does not read the acks, or reads them more slowly
 * than they come: what is kept for it is bounded. It can be left at any point
 * of that, and a neighbour's put arrives.
 * link: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free
 */
#include "memory.h"
#include "raw.h"

#define MOST_PUTS 100000
#define MOST_BYTES (512u * 1024)
#define BEHIND 900 /* acks */
#define LONG 20000

static char path[64];
static uint8_t memory[8], payload[8];

static int put_once (struct raw *raw, struct end *end)
{
    struct ptl_frame put = raw_put (0, 8, PTL_ACK_REQ);
    bool is_open = raw_frame (raw, end, &put, payload);

    raw_drive (end);
    end->n = 0;
    return is_open;
}

/* Until it is cut off; how many puts that took. */
static int puts_until_cut_off (struct end *end, size_t *most)
{
    struct raw raw = raw_open (end, RAW_PID, 1, path);
    size_t before = memory_used;
    int n = 0;

    for (*most = 0; put_once (&raw, end); n++) {
        CHECK (n < MOST_PUTS);
        if (memory_used - before > *most && memory_used > before)
            *most = memory_used - before;
    }
    close (raw.fd);
    raw_drive (end);
    return n;
}

/* It is disconnected after so many puts. */
static void leave_after (struct end *end, int puts)
{
    struct raw raw = raw_open (end, RAW_PID, 2, path);

    for (int i = 0; i < puts; i++)
        put_once (&raw, end);
    CHECK (PtlxDisconnect (end->ni, LOOPBACK, RAW_PID) == PTL_OK);
    raw_drive (end);
    close (raw.fd);
    raw_drive (end);
    end->n = 0;
}

/* Acks that the socket has not taken yet. */
static uint64_t backlog (const struct end *end, uint64_t puts)
{
    struct ptlx_counters counters;

    CHECK (PtlxCounters (end->ni, &counters) == PTL_OK);
    return puts - counters.bytes_out / PTL_HEADER_BYTES;
}

/* Over a narrow connection it stays behind, for a long time. */
static void stay_behind (struct end *end)
{
    size_t before = memory_used;
    uint64_t base = backlog (end, 0), puts;
    struct raw raw;
    struct ptl_frame ack;

    raw_is_narrow = true;
    raw = raw_open (end, RAW_PID, 3, NULL);
    for (puts = 0; puts < LONG; puts++) {
        CHECK (put_once (&raw, end));
        while (backlog (end, puts + 1 - base) > BEHIND) {
            CHECK (raw_answer (&raw, end, &ack));
            CHECK (ack.type == PTL_FRAME_ACK);
            raw_drive (end);
        }
        CHECK (memory_used < before + MOST_BYTES);
    }
    close (raw.fd);
    raw_drive (end);
}

int main (void)
{
    char directory[] = "/tmp/yod-acks-XXXXXX";
    struct end ends[2], *end = &ends[0], *neighbour = &ends[1];
    struct ptlx_config config = {
        .listen_nid = LOOPBACK,
        .unix_path = path,
        .partition_key = test_key,
    };
    ptl_handle_md_t md;
    size_t most;
    int n;

    CHECK (mkdtemp (directory));
    snprintf (path, sizeof (path), "%s/end", directory);
    end_open_with (end, &config, 64);
    end_open (neighbour, 64);
    CHECK (open_table (end, 0) == 0);
    open_entry (end, 0, memory, sizeof (memory), 0, PTL_CT_NONE);
    n = puts_until_cut_off (end, &most);
    CHECK (most <= MOST_BYTES);
    for (int i = n - 6; i <= n + 1; i++)
        leave_after (end, i);
    stay_behind (end);
    md = bind_memory (neighbour, payload, 8, 0, PTL_CT_NONE);
    CHECK (PtlPut (md, 0, 8, PTL_ACK_REQ, end->id, 0, 0, 0, NULL, 0)
           == PTL_OK);
    pump_until (ends, 2, neighbour, PTL_EVENT_ACK, 1);
    CHECK (event_of (neighbour, PTL_EVENT_ACK, 0)->ni_fail == PTL_NI_OK);
    end_close (neighbour);
    end_close (end);
    CHECK (rmdir (directory) == 0);
    return 0;
}
