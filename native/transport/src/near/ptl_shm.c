#include "ptl_shm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define EVENT_LINK "anon_inode:[eventfd]"

/* ---- layout ---- */

static bool is_ring_size (size_t bytes)
{
    return bytes >= PTL_SHM_RING_MIN && bytes <= PTL_SHM_RING_MAX
        && (bytes & (bytes - 1)) == 0;
}

static size_t to_pages (size_t bytes)
{
    size_t page = (size_t)sysconf (_SC_PAGESIZE);

    return (bytes + page - 1) & ~(page - 1);
}

static size_t head_bytes (void)
{
    return to_pages (2 * sizeof (struct ptl_ring_shared));
}

static size_t memory_bytes (size_t ring_bytes)
{
    return to_pages (head_bytes () + 2 * ring_bytes);
}

static int map (struct ptl_shm *shm, size_t ring_bytes)
{
    size_t length = memory_bytes (ring_bytes);
    void *memory = mmap (NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED,
                         shm->fds[0], 0);
    struct ptl_ring_shared *heads = memory;
    uint8_t *bytes;

    if (memory == MAP_FAILED)
        return errno;
    shm->memory = memory;
    shm->length = length;
    bytes = (uint8_t *)memory + head_bytes ();
    ptl_ring_init (shm->is_maker ? &shm->out : &shm->in, &heads[0], bytes,
                   ring_bytes);
    ptl_ring_init (shm->is_maker ? &shm->in : &shm->out, &heads[1],
                   bytes + ring_bytes, ring_bytes);
    return 0;
}

/* ---- making ---- */

static void clear (struct ptl_shm *shm, bool is_maker)
{
    memset (shm, 0, sizeof (*shm));
    shm->is_maker = is_maker;
    for (int i = 0; i < PTL_SHM_FDS; i++)
        shm->fds[i] = -1;
}

static int open_all (struct ptl_shm *shm, size_t ring_bytes)
{
    for (int i = 1; i < PTL_SHM_FDS; i++)
        if ((shm->fds[i] = eventfd (0, EFD_NONBLOCK | EFD_CLOEXEC)) < 0)
            return errno;
    shm->fds[0] = memfd_create ("portals", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (shm->fds[0] < 0
        || ftruncate (shm->fds[0], (off_t)memory_bytes (ring_bytes)) < 0
        || fcntl (shm->fds[0], F_ADD_SEALS, SEALS) < 0)
        return errno;
    return map (shm, ring_bytes);
}

int ptl_shm_make (struct ptl_shm *shm, size_t ring_bytes)
{
    int error;

    clear (shm, true);
    if (!is_ring_size (ring_bytes))
        return EINVAL;
    if ((error = open_all (shm, ring_bytes)) != 0)
        ptl_shm_free (shm);
    return error;
}

void ptl_shm_free (struct ptl_shm *shm)
{
    if (shm->memory)
        munmap (shm->memory, shm->length);
    for (int i = 0; i < PTL_SHM_FDS; i++)
        if (shm->fds[i] >= 0)
            close (shm->fds[i]);
    clear (shm, shm->is_maker);
}

/* ---- giving ---- */

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE (sizeof (int) * PTL_SHM_FDS)];
};

ssize_t ptl_shm_give (const struct ptl_shm *shm, int socket, const void *data,
                      size_t length)
{
    union control control = { .bytes = { 0 } };
    struct iovec part = { (void *)(uintptr_t)data, length };
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof (control.bytes),
    };
    struct cmsghdr *header = CMSG_FIRSTHDR (&message);
    ssize_t n;

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN (sizeof (shm->fds));
    memcpy (CMSG_DATA (header), shm->fds, sizeof (shm->fds));
    do
        n = sendmsg (socket, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n;
}

void ptl_shm_given (struct ptl_shm *shm)
{
    if (shm->fds[0] >= 0)
        close (shm->fds[0]);
    shm->fds[0] = -1;
}

/* ---- taking ---- */

static void keep_fd (struct ptl_shm_fds *fds, int fd)
{
    if (fds->n < PTL_SHM_FDS) {
        fds->fds[fds->n++] = fd;
        return;
    }
    close (fd);
    fds->is_bad = true;
}

static void gather (struct msghdr *message, struct ptl_shm_fds *fds)
{
    struct cmsghdr *c;
    int fd;

    if (message->msg_flags & MSG_CTRUNC)
        fds->is_bad = true;
    for (c = CMSG_FIRSTHDR (message); c; c = CMSG_NXTHDR (message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            fds->is_bad = true;
            continue;
        }
        for (size_t at = CMSG_LEN (0); at + sizeof (fd) <= c->cmsg_len;
             at += sizeof (fd)) {
            memcpy (&fd, (char *)c + at, sizeof (fd));
            keep_fd (fds, fd);
        }
    }
}

ssize_t ptl_shm_receive (int socket, struct iovec *parts, int count,
                         struct ptl_shm_fds *fds)
{
    union control control;
    struct msghdr message = {
        .msg_iov = parts,
        .msg_iovlen = (size_t)count,
        .msg_control = control.bytes,
        .msg_controllen = sizeof (control.bytes),
    };
    ssize_t n;

    do
        n = recvmsg (socket, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        gather (&message, fds);
    return n;
}

void ptl_shm_drop (struct ptl_shm_fds *fds)
{
    for (int i = 0; i < fds->n; i++)
        close (fds->fds[i]);
    *fds = (struct ptl_shm_fds){ .n = 0 };
}

/* Is it a file of a memory file system (whose missing pages can be made; huge
 * pages may run out), sealed at this size? */
static bool is_memory (int fd, size_t length)
{
    struct stat st;
    struct statfs fs;
    int seals = fcntl (fd, F_GET_SEALS);

    return seals >= 0 && (seals & SEALS) == SEALS && fstat (fd, &st) == 0
        && S_ISREG (st.st_mode) && (size_t)st.st_size == length
        && fstatfs (fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

/* fstat tells no kind of anonymous inodes. */
static bool is_event (int fd)
{
    char path[40], link[sizeof (EVENT_LINK) + 1] = "";

    snprintf (path, sizeof (path), "/proc/self/fd/%d", fd);
    return readlink (path, link, sizeof (link) - 1) >= 0
        && strcmp (link, EVENT_LINK) == 0
        && fcntl (fd, F_SETFL, O_NONBLOCK) == 0;
}

int ptl_shm_take (struct ptl_shm *shm, struct ptl_shm_fds *fds,
                  size_t ring_bytes)
{
    int error = EINVAL;

    clear (shm, false);
    if (is_ring_size (ring_bytes) && !fds->is_bad && fds->n == PTL_SHM_FDS
        && is_memory (fds->fds[0], memory_bytes (ring_bytes))
        && is_event (fds->fds[1]) && is_event (fds->fds[2])) {
        memcpy (shm->fds, fds->fds, sizeof (shm->fds));
        fds->n = 0;
        if ((error = map (shm, ring_bytes)) == 0)
            ptl_shm_given (shm);
        else
            ptl_shm_free (shm);
    }
    ptl_shm_drop (fds);
    return error;
}

bool ptl_shm_is_same_user (int socket, uid_t user)
{
    struct ucred cred;
    socklen_t size = sizeof (cred);

    return getsockopt (socket, SOL_SOCKET, SO_PEERCRED, &cred, &size) == 0
        && cred.uid == user;
}

/* ---- waking ---- */

int ptl_shm_own_fd (const struct ptl_shm *shm)
{
    return shm->fds[shm->is_maker ? 2 : 1];
}

static void add_one (int fd)
{
    uint64_t one = 1;

    (void)!write (fd, &one, sizeof (one)); /* a full one is readable, too */
}

void ptl_shm_wake (const struct ptl_shm *shm)
{
    add_one (shm->fds[shm->is_maker ? 1 : 2]);
}

void ptl_shm_calm (const struct ptl_shm *shm)
{
    uint64_t count;
    struct iovec part = { &count, sizeof (count) };
    int fd = ptl_shm_own_fd (shm);

    if (preadv2 (fd, &part, 1, -1, RWF_NOWAIT) < 0 && errno == EOPNOTSUPP)
        (void)!read (fd, &count, sizeof (count)); /* an old kernel */
}

void ptl_shm_wake_self (const struct ptl_shm *shm)
{
    add_one (ptl_shm_own_fd (shm));
}
