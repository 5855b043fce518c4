#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "ptl_bytes.h"
#include "ptl_job.h"

#define ALL (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)

/* The example of native/wire/RANK.md: three ranks. */
static const char VECTOR[] =
    "594f4452010000000300000003000000e803000000000000"
    "6712000000000000ffffffffffffff7f2021222324252627"
    "28292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
    "0500000a419c00000500000a429c00000600000a79970000";
#define BYTES (sizeof (VECTOR) / 2)

#define SHORT "FILE is too short: "
#define WRONG "FILE has wrong contents: "
#define OTHER_FILE \
    "its descriptors were closed on the way, and FILE is another one now: "
#define OTHER_LISTENER \
    "LISTENER was closed on the way, and is another one now: "

static uint8_t file[BYTES];
static int listener;

static void take_vector (void)
{
    for (size_t i = 0; i < BYTES; i++) {
        unsigned byte;

        CHECK (sscanf (VECTOR + 2 * i, "%2x", &byte) == 1);
        file[i] = (uint8_t)byte;
    }
}

/* A listener, at the port that the file then has for rank 1. */
static void listen_as_rank_1 (void)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    socklen_t length = sizeof (at);

    listener = socket (AF_INET, SOCK_STREAM, 0);
    CHECK (listener >= 0 && listen (listener, 1) == 0);
    CHECK (getsockname (listener, (struct sockaddr *)&at, &length) == 0);
    ptl_put32 (file + 84, ntohs (at.sin_port));
}

/* What the reader says of these bytes, and of the place `rank`. */
static int read_as (const uint8_t *bytes, size_t length, unsigned seals,
                    int listen_fd, const char *rank, struct ptl_job *job)
{
    int fd = memfd_create ("test", MFD_ALLOW_SEALING), rc;
    char text[64];

    CHECK (fd >= 0 && write (fd, bytes, length) == (ssize_t)length);
    CHECK (fcntl (fd, F_ADD_SEALS, seals) == 0);
    snprintf (text, sizeof (text), "%d,%d,%s", fd, listen_fd, rank);
    setenv ("YOD_PORTALS", text, 1);
    rc = ptl_job_read (job);
    if (rc == PTL_OK)
        CHECK (fcntl (fd, F_GETFD) == FD_CLOEXEC);
    CHECK (close (fd) == 0);
    return rc;
}

static void check_whole (void)
{
    struct ptl_job job;

    CHECK (read_as (file, BYTES, ALL, listener, "1", &job) == PTL_OK);
    CHECK (job.rank == 1 && job.size == 3 && job.listen_fd == listener);
    CHECK (job.key.kind == PTLX_KEY_JOB && job.key.uid == 1000);
    CHECK (job.key.job_id == 4711 && job.key.expires == INT64_MAX);
    for (unsigned i = 0; i < PTLX_KEY_BYTES; i++)
        CHECK (job.key.secret[i] == 0x20 + i);
    CHECK (job.map[0].phys.nid == 0x0a000005 && job.map[0].phys.pid == 40001);
    CHECK (job.map[2].phys.nid == 0x0a000006 && job.map[2].phys.pid == 38777);
    CHECK (job.self.phys.nid == job.map[1].phys.nid);
    CHECK (job.self.phys.pid == job.map[1].phys.pid);
    CHECK (fcntl (listener, F_GETFD) == FD_CLOEXEC);
    ptl_job_free (&job);
    CHECK (!job.map && !job.key.secret[5] && job.listen_fd < 0);
    CHECK (fcntl (listener, F_GETFD) >= 0); /* not ours to close */
}

/* It is refused, and what is said begins so. */
static bool is_refused (int rc, const struct ptl_job *job, const char *why)
{
    return rc == PTL_FAIL && !job->map && job->listen_fd < 0
        && strncmp (job->why, why, strlen (why)) == 0;
}

static bool refuses_bytes (const uint8_t *bytes, size_t length, const char *why)
{
    struct ptl_job job;
    int rc = read_as (bytes, length, ALL, listener, "1", &job);

    return is_refused (rc, &job, why);
}

static void check_damaged_files (void)
{
    uint8_t bytes[BYTES + 8] = { 0 };

    for (size_t length = 0; length < BYTES; length++)
        CHECK (refuses_bytes (file, length, SHORT));
    memcpy (bytes, file, BYTES);
    CHECK (refuses_bytes (bytes, BYTES + 1, WRONG));
    CHECK (refuses_bytes (bytes, BYTES + 8, WRONG));
    for (size_t at = 0; at < 24; at++) {
        if (at >= 16 && at < 20)
            continue; /* any uid */
        bytes[at] ^= 0x40;
        CHECK (refuses_bytes (bytes, BYTES, at == 8 ? SHORT : "FILE "));
        bytes[at] ^= 0x40;
    }
    ptl_put32 (bytes + 8, 0);
    CHECK (refuses_bytes (bytes, 72, WRONG));
}

static void check_descriptors (void)
{
    struct ptl_job job;
    int other = socket (AF_INET, SOCK_STREAM, 0), null = open ("/dev/null", 0);
    const struct {
        unsigned seals;
        int listener;
        const char *rank, *why;
    } cases[] = {
        { 0, listener, "1", OTHER_FILE },
        { F_SEAL_WRITE, listener, "1", OTHER_FILE },
        { ALL, listener, "0", OTHER_LISTENER },
        { ALL, listener, "3", "the job has no such RANK: " },
        { ALL, other, "1", OTHER_LISTENER },
        { ALL, null, "1", OTHER_LISTENER },
        { ALL, 9999, "1", "LISTENER was closed on the way: " },
    };

    for (size_t i = 0; i < sizeof (cases) / sizeof (*cases); i++) {
        int rc = read_as (file, BYTES, cases[i].seals, cases[i].listener,
                          cases[i].rank, &job);

        CHECK (is_refused (rc, &job, cases[i].why));
    }
    close (other);
    close (null);
}

/* A file that is closed, and one that is there and cannot be read. */
static void check_files_out_of_reach (void)
{
    int fd = memfd_create ("test", MFD_ALLOW_SEALING), unread;
    struct ptl_job job;
    char text[64];

    CHECK (fd >= 0 && write (fd, file, BYTES) == BYTES);
    CHECK (fcntl (fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0);
    snprintf (text, sizeof (text), "/proc/self/fd/%d", fd);
    CHECK ((unread = open (text, O_WRONLY)) >= 0);
    CHECK (fcntl (fd, F_ADD_SEALS, F_SEAL_WRITE) == 0);
    snprintf (text, sizeof (text), "%d,%d,1", unread, listener);
    setenv ("YOD_PORTALS", text, 1);
    CHECK (is_refused (ptl_job_read (&job), &job, "FILE cannot be read: "));
    close (unread);
    CHECK (is_refused (ptl_job_read (&job), &job,
                       "its descriptors were closed on the way: "));
    close (fd);
}

static void check_texts (void)
{
    static const char *const texts[] = {
        "", ",", ",,", "1", "1,2", "1,2,", "1,2,3,", "1,2,3 ", " 1,2,3",
        "-1,2,3", "1,-2,3", "1,2,-3", "9999,9998,0", "0x1,2,3",
        "99999999999,2,3", "1,4294967299,3", "1,2,4294967297"
    };
    struct ptl_job job;

    for (size_t i = 0; i < sizeof (texts) / sizeof (*texts); i++) {
        setenv ("YOD_PORTALS", texts[i], 1);
        CHECK (is_refused (ptl_job_read (&job), &job,
                           strcmp (texts[i], "9999,9998,0") == 0
                               ? "its descriptors were closed on the way: "
                               : "not FILE,LISTENER,RANK "));
    }
    unsetenv ("YOD_PORTALS");
    CHECK (ptl_job_read (&job) == PTL_IGNORED);
}

int main (void)
{
    take_vector ();
    listen_as_rank_1 ();
    check_whole ();
    check_damaged_files ();
    check_descriptors ();
    check_files_out_of_reach ();
    check_texts ();
    close (listener);
    return 0;
}
