/* Memory without seals, of another size or kind, too many or too few
 * descriptors: refused, and no descriptor stays open. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "ring_pair.h"

#define RING PTL_SHM_RING_MIN
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int open_fds (void)
{
    DIR *dir = opendir ("/proc/self/fd");
    int n = 0;

    CHECK (dir);
    while (readdir (dir))
        n++;
    closedir (dir);
    return n;
}

static void send_fds (int socket, const int *fds, int n)
{
    char bytes[CMSG_SPACE (sizeof (int) * 8)] = { 0 };
    struct iovec part = { bytes, 1 };
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = bytes,
        .msg_controllen = CMSG_SPACE (sizeof (int) * (size_t)n),
    };
    struct cmsghdr *header = CMSG_FIRSTHDR (&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN (sizeof (int) * (size_t)n);
    memcpy (CMSG_DATA (header), fds, sizeof (int) * (size_t)n);
    CHECK (sendmsg (socket, &message, 0) == 1);
}

/* What the other end says to descriptors that came in so many messages. */
static int judge (const int *fds, int n, int messages)
{
    struct ptl_shm_fds got = { .n = 0 };
    struct ptl_shm shm;
    char byte;
    struct iovec part = { &byte, 1 };
    int sockets[2], before = open_fds (), result;

    CHECK (socketpair (AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    for (int i = 0; i < messages; i++) {
        send_fds (sockets[0], fds, n);
        CHECK (ptl_shm_receive (sockets[1], &part, 1, &got) == 1);
    }
    result = ptl_shm_take (&shm, &got, RING);
    if (result == 0)
        ptl_shm_free (&shm);
    close (sockets[0]);
    close (sockets[1]);
    CHECK (open_fds () == before);
    return result;
}

static size_t right_size (void)
{
    struct ptl_shm shm;
    size_t length;

    CHECK (ptl_shm_make (&shm, RING) == 0);
    length = shm.length;
    ptl_shm_free (&shm);
    return length;
}

static int memory_of (size_t length, int seals)
{
    int fd = memfd_create ("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    CHECK (fd >= 0 && ftruncate (fd, (off_t)length) == 0);
    CHECK (fcntl (fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

/* The verdict when one descriptor of the three is another one. */
static int judge_with (int place, int fd)
{
    struct ptl_shm shm;
    int fds[PTL_SHM_FDS], result;

    CHECK (fd >= 0);
    CHECK (ptl_shm_make (&shm, RING) == 0);
    memcpy (fds, shm.fds, sizeof (fds));
    fds[place] = fd;
    result = judge (fds, PTL_SHM_FDS, 1);
    ptl_shm_free (&shm);
    close (fd);
    return result;
}

int main (void)
{
    size_t right = right_size ();
    int before = open_fds (), many[8];
    struct ptl_shm shm;

    CHECK (judge_with (0, memory_of (right, SEALS)) == 0);
    CHECK (judge_with (0, memory_of (right, SEALS | F_SEAL_WRITE)) != 0);
    CHECK (judge_with (0, memory_of (right, F_SEAL_SHRINK)) == EINVAL);
    CHECK (judge_with (0, memory_of (right, F_SEAL_GROW | F_SEAL_SEAL))
           == EINVAL);
    CHECK (judge_with (0, memory_of (right - 1, SEALS)) == EINVAL);
    CHECK (judge_with (0, memory_of (right * 2, SEALS)) == EINVAL);
    CHECK (judge_with (0, memory_of (0, SEALS)) == EINVAL);
    CHECK (judge_with (0, eventfd (0, 0)) == EINVAL);
    CHECK (judge_with (0, open ("/dev/zero", O_RDWR)) == EINVAL);
    CHECK (judge_with (1, memory_of (right, SEALS)) == EINVAL);
    CHECK (judge_with (2, open ("/dev/null", O_RDWR)) == EINVAL);
    CHECK (judge_with (2, eventfd (7, 0)) == 0);

    CHECK (ptl_shm_make (&shm, RING) == 0);
    for (int i = 0; i < 8; i++)
        many[i] = shm.fds[i % PTL_SHM_FDS];
    CHECK (judge (many, 3, 1) == 0);
    CHECK (judge (many, 2, 1) == EINVAL);
    CHECK (judge (many, 4, 1) == EINVAL);
    CHECK (judge (many, 8, 1) == EINVAL);
    CHECK (judge (many, 3, 2) == EINVAL);
    CHECK (judge (many, 0, 0) == EINVAL);
    ptl_shm_free (&shm);

    CHECK (ptl_shm_make (&shm, RING - 1) == EINVAL);
    CHECK (ptl_shm_make (&shm, 3 * RING) == EINVAL);
    CHECK (ptl_shm_make (&shm, 0) == EINVAL);
    CHECK (ptl_shm_make (&shm, SIZE_MAX) == EINVAL);
    CHECK (open_fds () == before);
    return 0;
}
