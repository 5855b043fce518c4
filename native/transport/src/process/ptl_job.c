#include "ptl_job.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ptl_bytes.h"

#define VARIABLE "YOD_PORTALS"
#define MAGIC 0x52444f59u /* "YODR" */
#define VERSION 1u
#define HEAD_BYTES 72u
#define ENTRY_BYTES 8u
#define SIZE_MAX_RANKS (1u << 20)
#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)

/* What to do. */
#define PASS_ON                                                         \
    "who starts this program has to pass them on (Python: "             \
    "close_fds=False), and only one program of a rank may use Portals"
#define LEAVE_ALONE "who starts this program has to leave the variable alone"
#define SAME_YOD "use the libportals of the yod that runs the job"

/* The three numbers of the variable. */
struct names {
    int file, listener;
    uint32_t rank;
};

/* Parse a decimal number and the byte behind it. */
static bool take (const char **at, char behind, uint32_t *value)
{
    uint64_t number = 0;
    const char *start = *at;

    for (; **at >= '0' && **at <= '9' && *at - start < 10; ++*at)
        number = number * 10 + (uint64_t)(**at - '0');
    if (*at == start || **at != behind || number > INT_MAX)
        return false;
    *value = (uint32_t)number;
    *at += behind != 0;
    return true;
}

static bool parse (const char *text, struct names *names)
{
    uint32_t file, listener;

    if (!take (&text, ',', &file) || !take (&text, ',', &listener)
        || !take (&text, 0, &names->rank))
        return false;
    names->file = (int)file;
    names->listener = (int)listener;
    return true;
}

static int refuse (struct ptl_job *job, const char *why)
{
    job->why = why;
    return PTL_FAIL;
}

/* Read all of `length` bytes. Not mapped: reading cannot fault. */
static int read_all (struct ptl_job *job, int fd, uint8_t *bytes,
                     size_t length, off_t offset)
{
    while (length) {
        ssize_t n = pread (fd, bytes, length, offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return refuse (job, "FILE cannot be read: " PASS_ON);
        if (n == 0)
            return refuse (job, "FILE is too short: " SAME_YOD);
        bytes += n;
        offset += n;
        length -= (size_t)n;
    }
    return PTL_OK;
}

/* Is the file complete and sealed, so that nobody can change it? */
static bool is_sealed (int fd)
{
    int seals = fcntl (fd, F_GET_SEALS);

    return seals >= 0 && (seals & SEALS) == SEALS;
}

static bool take_head (const uint8_t *head, struct ptl_job *job)
{
    job->size = ptl_get32 (head + 8);
    job->key.kind = ptl_get32 (head + 12);
    job->key.uid = ptl_get32 (head + 16);
    job->key.job_id = ptl_get64 (head + 24);
    job->key.expires = ptl_get64 (head + 32);
    memcpy (job->key.secret, head + 40, PTLX_KEY_BYTES);
    return ptl_get32 (head) == MAGIC && ptl_get32 (head + 4) == VERSION
           && job->key.kind == PTLX_KEY_JOB && ptl_get32 (head + 20) == 0
           && job->size >= 1 && job->size <= SIZE_MAX_RANKS;
}

static int take_map (int fd, struct ptl_job *job)
{
    size_t length = (size_t)job->size * ENTRY_BYTES;
    uint8_t *bytes = malloc (length);
    int rc;

    job->map = calloc (job->size, sizeof (*job->map));
    if (!bytes || !job->map) {
        free (bytes);
        return PTL_NO_SPACE;
    }
    if ((rc = read_all (job, fd, bytes, length, HEAD_BYTES)) != PTL_OK) {
        free (bytes);
        return rc;
    }
    for (uint32_t i = 0; i < job->size; i++) {
        job->map[i].phys.nid = ptl_get32 (bytes + i * ENTRY_BYTES);
        job->map[i].phys.pid = ptl_get32 (bytes + i * ENTRY_BYTES + 4);
    }
    free (bytes);
    return PTL_OK;
}

static int take_file (int fd, struct ptl_job *job)
{
    uint8_t head[HEAD_BYTES];
    struct stat status;
    uint64_t length;
    bool is_good;
    int rc;

    if (fstat (fd, &status) != 0)
        return refuse (job,
                       "its descriptors were closed on the way: " PASS_ON);
    if (!is_sealed (fd))
        return refuse (job,
                       "its descriptors were closed on the way, and FILE is "
                       "another one now: " PASS_ON);
    if ((rc = read_all (job, fd, head, sizeof (head), 0)) != PTL_OK)
        return rc;
    is_good = take_head (head, job);
    length = HEAD_BYTES + (uint64_t)job->size * ENTRY_BYTES;
    explicit_bzero (head, sizeof (head));
    if (!is_good || (uint64_t)status.st_size > length)
        return refuse (job, "FILE has wrong contents: " SAME_YOD);
    if ((uint64_t)status.st_size < length)
        return refuse (job, "FILE is too short: " SAME_YOD);
    return take_map (fd, job);
}

/* Is it a listener, at the port that the map has for this rank? */
static bool is_listener (int fd, uint32_t port)
{
    struct sockaddr_in at;
    socklen_t length = sizeof (at), one = sizeof (int);
    int is_listening = 0;

    return getsockopt (fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &one) == 0
           && is_listening
           && getsockname (fd, (struct sockaddr *)&at, &length) == 0
           && length == sizeof (at) && at.sin_family == AF_INET
           && ntohs (at.sin_port) == port;
}

static int take_names (const struct names *names, struct ptl_job *job)
{
    int rc = take_file (names->file, job);

    if (rc != PTL_OK)
        return rc;
    if (names->rank >= job->size)
        return refuse (job, "the job has no such RANK: " LEAVE_ALONE);
    job->rank = names->rank;
    job->self = job->map[job->rank];
    job->listen_fd = names->listener;
    if (fcntl (names->listener, F_GETFD) < 0)
        return refuse (job, "LISTENER was closed on the way: " PASS_ON);
    if (!is_listener (names->listener, job->self.phys.pid))
        return refuse (job,
                       "LISTENER was closed on the way, and is another one "
                       "now: " PASS_ON);
    if (fcntl (names->listener, F_SETFD, FD_CLOEXEC) != 0
        || fcntl (names->file, F_SETFD, FD_CLOEXEC) != 0)
        return refuse (job, "its descriptors cannot be changed: " PASS_ON);
    return PTL_OK;
}

int ptl_job_read (struct ptl_job *job)
{
    const char *text = getenv (VARIABLE);
    struct names names;
    const char *why;
    int rc;

    memset (job, 0, sizeof (*job));
    job->listen_fd = -1;
    if (!text)
        return PTL_IGNORED;
    if (!parse (text, &names))
        return refuse (job, "not FILE,LISTENER,RANK as yod sets it: "
                            LEAVE_ALONE);
    rc = take_names (&names, job);
    if (rc != PTL_OK) {
        why = job->why;
        ptl_job_free (job);
        job->why = why;
    }
    return rc;
}

void ptl_job_free (struct ptl_job *job)
{
    free (job->map);
    explicit_bzero (job, sizeof (*job));
    job->listen_fd = -1;
}
