/* Source, relay, two leaves. At each of many points one of them goes away or
 * cancels: no event comes twice, and everything is given back. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

#define SIZE 2000000
#define CHUNK 65536
#define BITS (UINT64_C (9) << 16 | 4)
#define ENDS 4

static void arm (const struct end *end, int fd, const ptl_process_t *children,
                 unsigned count, int is_source)
{
    struct ptlx_object object = {
        .match_bits = BITS,
        .job_id = 9,
        .size = SIZE,
        .chunk_bytes = CHUNK,
        .children = children,
        .n_children = count,
        .fd = fd,
        .is_source = is_source,
    };

    CHECK (PtlxForward (end->ni, &object) == PTL_OK);
}

/* No event may come twice, nor success after failure. */
static void check (const struct end *end)
{
    int failed = count_of (end, PTLX_EVENT_OBJECT_FAILED);
    int sent = count_of (end, PTLX_EVENT_OBJECT_SENT);

    CHECK (failed + sent <= 1);
    CHECK (count_of (end, PTLX_EVENT_OBJECT_ARRIVED) <= 1);
}

struct moment {
    const struct end *end;
    uint64_t bytes;
};

static bool has_come (void *context)
{
    const struct moment *moment = context;
    struct ptlx_counters counters;

    CHECK (PtlxCounters (moment->end->ni, &counters) == PTL_OK);
    return counters.bytes_out >= moment->bytes;
}

/* Drive all but one until nothing more happens. */
static void settle (struct end *ends, int except)
{
    struct pollfd fds[ENDS];

    do {
        for (int i = 0; i < ENDS; i++) {
            fds[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
            if (i == except)
                continue;
            CHECK (PtlxFd (ends[i].ni, &fds[i].fd) == PTL_OK);
            end_take (&ends[i]);
            check (&ends[i]);
        }
    } while (poll (fds, ENDS, 20) > 0);
}

/* `who` ends when the source has sent so much; by closing or by cancelling. */
static void run (int who, uint64_t bytes, bool cancels)
{
    struct end ends[ENDS];
    struct moment moment = { ends, bytes };
    ptl_process_t children[2];
    int fds[ENDS];

    for (int i = 0; i < ENDS; i++) {
        end_open (&ends[i], 16);
        fds[i] = memfd_create ("object", MFD_CLOEXEC);
        CHECK (posix_fallocate (fds[i], 0, SIZE) == 0);
    }
    children[0] = ends[2].id;
    children[1] = ends[3].id;
    arm (&ends[3], fds[3], NULL, 0, 0);
    arm (&ends[2], fds[2], NULL, 0, 0);
    arm (&ends[1], fds[1], children, 2, 0);
    arm (&ends[0], fds[0], &ends[1].id, 1, 1);
    pump (ends, ENDS, has_come, &moment);
    if (cancels)
        CHECK (PtlxCancel (ends[who].ni, BITS) == PTL_OK);
    else
        CHECK (PtlxNIFini (ends[who].ni, 0) == PTL_OK);
    settle (ends, cancels ? -1 : who);
    for (int i = 0; i < ENDS; i++) {
        if (i != who || cancels)
            CHECK (PtlxNIFini (ends[i].ni, 0) == PTL_OK);
        PtlFini ();
        free (ends[i].log);
        close (fds[i]);
    }
}

int main (void)
{
    for (int who = 0; who < ENDS; who++)
        for (uint64_t part = 0; part <= 4; part++) {
            run (who, part * SIZE / 4, false);
            run (who, part * SIZE / 4, true);
        }
    return 0;
}
