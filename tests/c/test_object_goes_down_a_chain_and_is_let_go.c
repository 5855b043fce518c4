/* Source, relay, leaf: the file lands twice, its digest is that of BLAKE2b,
 * nothing is mapped or open any more when the last event has come. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

#define SIZE (3000000 + 7)
#define BITS (UINT64_C (9) << 16 | 4)

static int file (const uint8_t *data)
{
    int fd = memfd_create ("object", MFD_CLOEXEC);

    CHECK (fd >= 0 && posix_fallocate (fd, 0, SIZE) == 0);
    if (data)
        CHECK (pwrite (fd, data, SIZE, 0) == SIZE);
    return fd;
}

static void arm (const struct end *end, int fd, const struct end *child,
                 int is_source, uint64_t chunk_bytes)
{
    struct ptlx_object object = {
        .match_bits = BITS,
        .job_id = 9,
        .size = SIZE,
        .chunk_bytes = chunk_bytes,
        .children = child ? &child->id : NULL,
        .n_children = child ? 1 : 0,
        .fd = fd,
        .is_source = is_source,
    };

    CHECK (PtlxForward (end->ni, &object) == PTL_OK);
    CHECK (PtlxForward (end->ni, &object) == PTL_IN_USE);
}

static int mappings (void)
{
    FILE *maps = fopen ("/proc/self/maps", "r");
    char line[512];
    int count = 0;

    CHECK (maps);
    while (fgets (line, sizeof (line), maps))
        count += strstr (line, "memfd:object") != NULL;
    fclose (maps);
    return count;
}

static void forward (uint64_t chunk_bytes)
{
    struct end ends[3], *source = ends, *relay = ends + 1, *leaf = ends + 2;
    uint8_t *data = malloc (SIZE), *landed = malloc (SIZE);
    uint8_t digest[32];
    int from, at_relay, at_leaf;

    CHECK (data && landed);
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (uint8_t)(i * 7 + i / 1000);
    for (int i = 0; i < 3; i++)
        end_open (&ends[i], 16);
    from = file (data);
    at_relay = file (NULL);
    at_leaf = file (NULL);
    arm (leaf, at_leaf, NULL, 0, chunk_bytes);
    arm (relay, at_relay, leaf, 0, chunk_bytes);
    CHECK (mappings () == 2);
    arm (source, from, relay, 1, chunk_bytes);
    pump_until (ends, 3, source, PTLX_EVENT_OBJECT_SENT, 1);
    pump_until (ends, 3, relay, PTLX_EVENT_OBJECT_SENT, 1);
    pump_until (ends, 3, leaf, PTLX_EVENT_OBJECT_ARRIVED, 1);
    CHECK (mappings () == 0);
    PtlxHash (data, SIZE, digest);
    for (int i = 1; i < 3; i++) {
        const struct ptlx_event *event
            = event_of (&ends[i], PTLX_EVENT_OBJECT_ARRIVED, 0);

        CHECK (event && event->match_bits == BITS);
        CHECK (memcmp (event->digest, digest, 32) == 0);
        CHECK (event->first_ns > 0 && event->first_ns <= event->last_ns);
        CHECK (pread (i == 1 ? at_relay : at_leaf, landed, SIZE, 0) == SIZE);
        CHECK (memcmp (data, landed, SIZE) == 0);
    }
    close (from);
    close (at_relay);
    close (at_leaf);
    for (int i = 0; i < 3; i++)
        end_close (&ends[i]);
    free (data);
    free (landed);
}

int main (void)
{
    forward (300 * 1024);
    forward (4096); /* more chunks than have their puts at a time */
    return 0;
}
