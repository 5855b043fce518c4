/* One call may hand over more bytes than one turn writes, so that other peers have
 * their turn. If the other process reads as fast as we write, the ring never fills
 * up, and its reader never wakes the writer: then the writer's own descriptor must
 * say that there is more to do. A process that asks for the descriptor late is
 * told of arrivals from then on.
 * link: -Wl,--wrap=ptl_ring_write
 */
#include <fcntl.h>
#include <sched.h>

#include "near_ends.h"

#define PUTS 1000 /* four times what is written in one go */
#define BYTES 4096
#define STALLED_MS 2000 /* a deadline that is over wakes after 5 s */

size_t __real_ptl_ring_write (struct ptl_ring *ring, const struct iovec *parts,
                              int count);
size_t __wrap_ptl_ring_write (struct ptl_ring *ring, const struct iovec *parts,
                              int count);

static bool is_drained; /* by the other process, at once */
static uint8_t memory[BYTES];

size_t __wrap_ptl_ring_write (struct ptl_ring *ring, const struct iovec *parts,
                              int count)
{
    size_t n = __real_ptl_ring_write (ring, parts, count);

    while (is_drained
           && atomic_load_explicit (&ring->shared->taken,
                                    memory_order_acquire)
                  != ring->own)
        sched_yield ();
    return n;
}

/* Never asleep; puts a byte to every id that it is told. */
static void spin (struct other *parent)
{
    ptl_handle_ct_t ct;
    ptl_ct_event_t value;
    ptl_process_t target;
    ptl_handle_md_t md;
    struct end end;
    ssize_t n;

    near_open (&end, 4096);
    CHECK (PtlCTAlloc (end.ni, &ct) == PTL_OK);
    CHECK (open_table (&end, 0) == 0);
    open_entry (&end, 0, memory, sizeof (memory), PTL_ME_EVENT_COMM_DISABLE,
                PTL_CT_NONE);
    md = bind_memory (&end, memory, 1, PTL_MD_EVENT_SEND_DISABLE,
                      PTL_CT_NONE);
    other_tell (parent, &end.id, sizeof (end.id));
    CHECK (fcntl (parent->from, F_SETFL, O_NONBLOCK) == 0);
    while ((n = read (parent->from, &target, sizeof (target))) != 0) {
        if (n > 0)
            CHECK (PtlPut (md, 0, 1, PTL_NO_ACK_REQ, target, 0, 0, 0, NULL, 0)
                   == PTL_OK);
        CHECK (PtlCTGet (ct, &value) == PTL_OK);
    }
    end_close (&end);
}

/* Drive the end whenever its descriptor is readable. */
static void drive_until (struct end *end, int fd, uint32_t type, int count)
{
    struct pollfd poll_fd = { fd, POLLIN, 0 };

    while (count_of (end, type) < count) {
        CHECK (poll (&poll_fd, 1, STALLED_MS) == 1);
        end_take (end);
    }
}

static ptl_event_kind_t wait_for_any (struct end *end)
{
    ptl_event_t event;
    unsigned which;

    CHECK (PtlEQPoll (&end->eq, 1, LIMIT_MS, &event, &which) == PTL_OK);
    return event.type;
}

/* Memory is shared, and nobody has asked for the descriptor. */
static void warm_up_unwatched (struct end *end, ptl_process_t target)
{
    ptl_handle_md_t md = bind_memory (end, memory, 1,
                                      PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);

    for (int i = 0; i < 100 && !is_shared (end); i++) {
        CHECK (PtlPut (md, 0, 1, PTL_ACK_REQ, target, 0, 0, 0, NULL, 0)
               == PTL_OK);
        CHECK (wait_for_any (end) == PTL_EVENT_ACK);
    }
    CHECK (is_shared (end));
    CHECK (PtlMDRelease (md) == PTL_OK);
}

static void put_in_a_bundle (struct end *end, ptl_process_t target)
{
    ptl_handle_md_t md = bind_memory (end, memory, BYTES,
                                      PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);

    CHECK (PtlStartBundle (end->ni) == PTL_OK);
    for (int i = 1; i <= PUTS; i++)
        CHECK (PtlPut (md, 0, BYTES, i < PUTS ? PTL_NO_ACK_REQ : PTL_ACK_REQ,
                       target, 0, 0, 0, NULL, 0)
               == PTL_OK);
    is_drained = true;
    CHECK (PtlEndBundle (end->ni) == PTL_OK);
}

int main (void)
{
    struct other other = other_start (spin);
    ptl_process_t target;
    struct end end;
    int fd;

    near_open (&end, 4096);
    CHECK (open_table (&end, 0) == 0);
    open_entry (&end, 0, memory, sizeof (memory), 0, PTL_CT_NONE);
    other_hear (&other, &target, sizeof (target));
    warm_up_unwatched (&end, target);
    CHECK (PtlxFd (end.ni, &fd) == PTL_OK);
    other_tell (&other, &end.id, sizeof (end.id));
    drive_until (&end, fd, PTL_EVENT_PUT, 1);
    put_in_a_bundle (&end, target);
    drive_until (&end, fd, PTL_EVENT_ACK, 1);
    is_drained = false;
    close (other.to);
    other.to = open ("/dev/null", O_RDONLY);
    end_close (&end);
    other_end (&other);
    return 0;
}
