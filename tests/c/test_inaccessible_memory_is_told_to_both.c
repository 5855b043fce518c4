/* An interface with PTL_TARGET_BIND_INACCESSIBLE (spec 3.6.1) takes an entry over
 * memory that is not all there, as one over the whole address space. What would
 * touch memory that is not, or that may not be written, ends with PTL_NI_SEGV at
 * both sides and changes nothing; what comes after it on the same connection, and
 * from the process itself, goes on.
 * kinds: all */
#include <sys/mman.h>
#include <unistd.h>

#include "kinds.h"

#define BYTES (1u << 20)

static struct end ends[2];
static ptl_handle_eq_t queue;
static ptl_handle_ct_t counter;
static ptl_handle_md_t md;
static ptl_pt_index_t table;
static uint8_t *good, *hole, *constant; /* BYTES each, one after the other */
static uint8_t ours[2 * BYTES];
static uint64_t n_good, n_bad;

static void make_memory (void)
{
    good = mmap (NULL, 3 * BYTES, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK (good != MAP_FAILED);
    hole = good + BYTES;
    constant = hole + BYTES;
    memset (good, 7, BYTES);
    memset (constant, 9, BYTES);
    CHECK (munmap (hole, BYTES) == 0);
    CHECK (mprotect (constant, BYTES, PROT_READ) == 0);
}

static void open_all (void)
{
    ptl_ni_limits_t desired = { .features = PTL_TARGET_BIND_INACCESSIBLE };
    entry_t entry = entry_of (NULL, PTL_SIZE_MAX,
                              PTL_LE_OP_PUT | PTL_LE_OP_GET
                                  | PTL_LE_EVENT_LINK_DISABLE
                                  | PTL_LE_EVENT_CT_COMM);

    kinds_open (ends, 2, 64, &desired);
    table = kinds_table (&ends[1], 0, 64, &queue);
    CHECK (PtlCTAlloc (ends[1].ni, &counter) == PTL_OK);
    entry.ct_handle = counter;
    put_entry (&ends[1], table, &entry, PTL_PRIORITY_LIST, NULL);
}

/* The operation that has just begun ends with `fail` at both sides. */
static void ends_with (struct end *from, ptl_event_kind_t at_initiator,
                       ptl_event_kind_t at_target, ptl_ni_fail_t fail,
                       uint64_t length)
{
    int before = count_of (from, at_initiator);
    const struct ptlx_event *told;
    ptl_event_t event;

    pump_until (ends, 2, from, at_initiator, before + 1);
    told = event_of (from, at_initiator, before);
    CHECK (told->ni_fail == fail && told->mlength == length);
    event = expect (queue, at_target);
    CHECK (event.ni_fail_type == fail && event.mlength == length);
    n_good += fail == PTL_NI_OK;
    n_bad += fail != PTL_NI_OK;
    CHECK (counts (counter, n_good, n_bad));
}

static void put (struct end *from, const void *to, uint64_t length, bool is_good)
{
    CHECK (PtlPut (md, 0, length, PTL_ACK_REQ, ends[1].id, table, 0,
                   (uint64_t)(uintptr_t)to, NULL, 0)
           == PTL_OK);
    ends_with (from, PTL_EVENT_ACK, PTL_EVENT_PUT,
               is_good ? PTL_NI_OK : PTL_NI_SEGV, is_good ? length : 0);
}

static void get (struct end *from, const void *at, uint64_t length,
                 bool is_good)
{
    CHECK (PtlGet (md, 0, length, ends[1].id, table, 0,
                   (uint64_t)(uintptr_t)at, NULL)
           == PTL_OK);
    ends_with (from, PTL_EVENT_REPLY, PTL_EVENT_GET,
               is_good ? PTL_NI_OK : PTL_NI_SEGV, is_good ? length : 0);
}

static void check_puts (struct end *from)
{
    memset (ours, 1, sizeof (ours));
    put (from, good, 8, true);
    put (from, hole, 8, false);
    put (from, hole - 4, 8, false);
    put (from, NULL, 1, false);
    put (from, constant, 8, false);
    put (from, good, BYTES, true);
    memset (good, 7, BYTES);
    put (from, good, BYTES + 1, false);
    put (from, constant - 8, 64 * 1024, false);
    put (from, hole, 0, true); /* touches nothing */
    for (unsigned i = 0; i < BYTES; i++)
        CHECK (good[i] == 7 && constant[i] == 9);
}

static void check_gets (struct end *from)
{
    get (from, constant, BYTES, true);
    CHECK (ours[0] == 9 && ours[BYTES - 1] == 9);
    get (from, hole, 8, false);
    get (from, good, BYTES + 1, false);
    get (from, good, 8, true);
    CHECK (ours[0] == 7 && ours[8] == 9);
}

static void check_atomics (struct end *from)
{
    uint64_t at = (uint64_t)(uintptr_t)constant;

    CHECK (PtlAtomic (md, 0, 8, PTL_ACK_REQ, ends[1].id, table, 0, at, NULL, 0,
                      PTL_SUM, PTL_INT64_T)
           == PTL_OK);
    ends_with (from, PTL_EVENT_ACK, PTL_EVENT_ATOMIC, PTL_NI_SEGV, 0);
    CHECK (PtlFetchAtomic (md, 0, md, 64, 8, ends[1].id, table, 0, at, NULL, 0,
                           PTL_SUM, PTL_INT64_T)
           == PTL_OK);
    ends_with (from, PTL_EVENT_REPLY, PTL_EVENT_FETCH_ATOMIC, PTL_NI_SEGV, 0);
}

int main (void)
{
    make_memory ();
    open_all ();
    for (int i = 0; i < 2; i++) { /* from another, from oneself */
        md = bind_memory (&ends[i], ours, sizeof (ours),
                          PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
        check_puts (&ends[i]);
        check_gets (&ends[i]);
        check_atomics (&ends[i]);
    }
    CHECK (is_empty (queue));
    kinds_close (ends, 2);
    return 0;
}
