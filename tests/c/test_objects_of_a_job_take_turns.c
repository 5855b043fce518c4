/* However many objects a job sends through an endpoint, or passes on there,
 * what they take of memory is bounded; all arrive, whichever are cancelled, and
 * another job does not wait for them.
 * link: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"
#include "memory.h"

#define MIB ((size_t)1 << 20)
#define SENDING (4 * MIB)
#define BITS(job, number) ((uint64_t)(job) << 16 | (uint64_t)(number))

static int file (uint64_t size)
{
    int fd = memfd_create ("object", MFD_CLOEXEC);

    CHECK (fd >= 0 && posix_fallocate (fd, 0, (off_t)size) == 0);
    return fd;
}

/* The files may be closed: an end keeps what it needs. */
static void arm (const struct end *end, uint64_t bits, uint64_t size,
                 uint64_t chunk_bytes, const struct end *child, int is_source)
{
    struct ptlx_object object = {
        .match_bits = bits,
        .job_id = bits >> 16,
        .size = size,
        .chunk_bytes = chunk_bytes,
        .children = child ? &child->id : NULL,
        .n_children = child ? 1 : 0,
        .fd = file (size),
        .is_source = is_source,
    };

    CHECK (PtlxForward (end->ni, &object) == PTL_OK);
    close (object.fd);
}

struct bound {
    struct wish wish;
    size_t most;
};

static bool is_there_within_bounds (void *context)
{
    struct bound *bound = context;

    CHECK (memory_used < bound->most);
    return has_wish (&bound->wish);
}

static void open_all (struct end *ends, int n)
{
    struct ptlx_config config = {
        .listen_nid = LOOPBACK,
        .partition_key = test_key,
        .sending_bytes = SENDING,
    };

    for (int i = 0; i < n; i++)
        end_open_with (&ends[i], &config, 512);
}

static void close_all (struct end *ends, int n)
{
    for (int i = 0; i < n; i++)
        end_close (&ends[i]);
}

/* Each source would take two mebibytes. */
static void sources (bool cancels)
{
    enum { OBJECTS = 24 };
    struct end ends[2], *source = ends, *leaf = ends + 1;
    struct bound bound = { { leaf, PTLX_EVENT_OBJECT_ARRIVED, OBJECTS }, 0 };
    size_t before;

    open_all (ends, 2);
    for (int i = 0; i < OBJECTS; i++)
        arm (leaf, BITS (9, i), 2 * MIB, MIB, NULL, 0);
    before = memory_used;
    for (int i = 0; i < OBJECTS; i++)
        arm (source, BITS (9, i), 2 * MIB, MIB, leaf, 1);
    CHECK (memory_used < before + SENDING + MIB / 2);
    arm (leaf, BITS (10, 0), MIB, MIB, NULL, 0);
    arm (source, BITS (10, 0), MIB, MIB, leaf, 1);
    CHECK (memory_used > before + 2 * MIB + MIB / 2);
    bound.wish.count++;
    bound.most = before + SENDING + 3 * MIB;
    for (int i = 0; cancels && i < OBJECTS; i += 2) {
        CHECK (PtlxCancel (source->ni, BITS (9, i)) == PTL_OK);
        bound.wish.count--;
    }
    pump (ends, 2, is_there_within_bounds, &bound);
    pump_until (ends, 2, source, PTLX_EVENT_OBJECT_SENT, bound.wish.count);
    close_all (ends, 2);
}

/* All puts of one object fit, those of all objects do not. */
static void relays (bool cancels)
{
    enum { OBJECTS = 64, CHUNK = 512, SIZE = 250 * CHUNK };
    struct end ends[3], *source = ends, *relay = ends + 1, *leaf = ends + 2;
    struct bound bound = { { leaf, PTLX_EVENT_OBJECT_ARRIVED, OBJECTS }, 0 };

    open_all (ends, 3);
    for (int i = 0; i < OBJECTS; i++)
        arm (leaf, BITS (9, i), SIZE, CHUNK, NULL, 0);
    bound.most = memory_used + 2 * MIB;
    for (int i = 0; i < OBJECTS; i++)
        arm (relay, BITS (9, i), SIZE, CHUNK, leaf, 0);
    CHECK (memory_used < bound.most);
    for (int i = 0; cancels && i < OBJECTS; i++)
        if (i % 4 != 1) {
            CHECK (PtlxCancel (relay->ni, BITS (9, i)) == PTL_OK);
            bound.wish.count--;
        }
    bound.most += MIB; /* connections, the source's puts */
    for (int i = OBJECTS - 1; i >= 0; i--)
        if (!cancels || i % 4 == 1)
            arm (source, BITS (9, i), SIZE, CHUNK, relay, 1);
    pump (ends, 3, is_there_within_bounds, &bound);
    pump_until (ends, 3, relay, PTLX_EVENT_OBJECT_SENT, bound.wish.count);
    close_all (ends, 3);
}

int main (void)
{
    sources (false);
    sources (true);
    relays (false);
    relays (true);
    return 0;
}
