/* On an interface with PTL_TARGET_BIND_INACCESSIBLE a put of many fragments finds
 * out about memory as its bytes come: pages behind them are left alone, a hole
 * anywhere refuses it before anything has changed, and memory that may not be
 * written ends it there, with PTL_NI_SEGV at both sides. */
#include <sys/mman.h>

#include "raw.h"

#define FRAGMENT PTL_PAYLOAD_MAX
#define FRAGMENTS 16u
#define BYTES (FRAGMENTS * (uint64_t)FRAGMENT)

static uint8_t payload[FRAGMENT];
static struct end end;
static struct raw raw;

static uint8_t *make_memory (void)
{
    uint8_t *memory = mmap (NULL, BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK (memory != MAP_FAILED);
    (void)!madvise (memory, BYTES, MADV_NOHUGEPAGE);
    return memory;
}

static void open_end (void)
{
    struct ptlx_config config
        = { .listen_nid = LOOPBACK, .partition_key = test_key };
    ptl_ni_limits_t desired = { .features = PTL_TARGET_BIND_INACCESSIBLE };
    ptl_ni_limits_t actual;

    memset (&end, 0, sizeof (end));
    CHECK (PtlInit () == PTL_OK);
    CHECK (PtlxNIInitKind (&config, PTL_NI_MATCHING | PTL_NI_PHYSICAL,
                           &desired, &actual, &end.ni)
           == PTL_OK);
    CHECK (actual.features & PTL_TARGET_BIND_INACCESSIBLE);
    CHECK (PtlEQAlloc (end.ni, 64, &end.eq) == PTL_OK);
    CHECK (PtlxNotify (end.ni, end.eq) == PTL_OK);
    CHECK (PtlGetPhysId (end.ni, &end.id) == PTL_OK);
    end.log = calloc (MAX_LOG, sizeof (*end.log));
    CHECK (end.log);
    CHECK (open_table (&end, 0) == 0);
    open_entry (&end, 0, NULL, PTL_SIZE_MAX, 0, PTL_CT_NONE);
    raw = raw_open (&end, RAW_PID, 1, NULL);
}

/* One of the fragments of a put to `memory`. */
static void give (const uint8_t *memory, uint32_t op, uint32_t number)
{
    struct ptl_frame frame = raw_put (0, FRAGMENT, PTL_ACK_REQ);

    frame.flags = (uint16_t)((number == 0 ? PTL_FLAG_FIRST : 0)
                             | (number == FRAGMENTS - 1 ? PTL_FLAG_LAST : 0));
    frame.op_index = op;
    frame.fragment = number;
    frame.total = BYTES;
    frame.offset = number == 0 ? (uint64_t)(uintptr_t)memory
                               : number * (uint64_t)FRAGMENT;
    CHECK (raw_frame (&raw, &end, &frame, payload));
}

static void ends_with (uint32_t op, int fail, uint64_t mlength)
{
    int nth = count_of (&end, PTL_EVENT_PUT);
    struct ptl_frame ack;

    CHECK (raw_answer (&raw, &end, &ack));
    CHECK (ack.type == PTL_FRAME_ACK && ack.op_index == op);
    CHECK (ack.detail == fail && ack.total == mlength);
    pump_until (&end, 1, &end, PTL_EVENT_PUT, nth + 1);
    CHECK ((int)event_of (&end, PTL_EVENT_PUT, nth)->ni_fail == fail);
    CHECK (event_of (&end, PTL_EVENT_PUT, nth)->mlength == mlength);
}

static bool is_present (uint8_t *memory, uint32_t fragment)
{
    unsigned char pages[FRAGMENT / 4096];
    uint8_t *at = memory + fragment * (uint64_t)FRAGMENT;

    CHECK (mincore (at, FRAGMENT, pages) == 0);
    return pages[0] & 1;
}

static void check_pages_come_with_their_bytes (void)
{
    uint8_t *memory = make_memory ();

    give (memory, 0, 0);
    give (memory, 0, 1);
    raw_drive (&end);
    CHECK (is_present (memory, 0));
    CHECK (!is_present (memory, 2) && !is_present (memory, FRAGMENTS - 1));
    for (uint32_t i = 2; i < FRAGMENTS; i++)
        give (memory, 0, i);
    ends_with (0, PTL_NI_OK, BYTES);
    CHECK (memory[0] == 5 && memory[BYTES - 1] == 5);
    CHECK (munmap (memory, BYTES) == 0);
}

static void check_a_hole_changes_nothing (void)
{
    uint8_t *memory = make_memory ();

    CHECK (munmap (memory + BYTES - FRAGMENT, FRAGMENT) == 0);
    for (uint32_t i = 0; i < FRAGMENTS; i++)
        give (memory, 1, i);
    ends_with (1, PTL_NI_SEGV, 0);
    CHECK (memory[0] == 0);
    CHECK (munmap (memory, BYTES) == 0);
}

static void check_what_is_read_only_ends_it (void)
{
    uint8_t *memory = make_memory ();

    CHECK (mprotect (memory + BYTES / 2, BYTES / 2, PROT_READ) == 0);
    for (uint32_t i = 0; i < FRAGMENTS; i++)
        give (memory, 2, i);
    ends_with (2, PTL_NI_SEGV, 0);
    CHECK (memory[0] == 5 && memory[BYTES / 2] == 0);
    CHECK (munmap (memory, BYTES) == 0);
}

int main (void)
{
    memset (payload, 5, sizeof (payload));
    open_end ();
    check_pages_come_with_their_bytes ();
    check_a_hole_changes_nothing ();
    check_what_is_read_only_ends_it ();
    check_pages_come_with_their_bytes ();
    close (raw.fd);
    end_close (&end);
    return 0;
}
