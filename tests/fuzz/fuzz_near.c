/* fuzz_near.c - memory that is shared with a process that lies.
 *
 * The end dials a process of its host and user, which is the input: it gives
 * memory as it should, or other descriptors; then it writes frames, any bytes,
 * and any counts into the rings, and says what it likes on the socket.
 * Afterwards a neighbour's put arrives, and all is given back.
 */
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "fuzz.h"
#include "ptl_shm.h"

#define MOST_BYTES (2u << 20)
#define MOST_STEPS 150

struct world {
    struct end end, neighbour;
    struct input in;
    ptl_handle_md_t md;
    int fd; /* -1: not connected */
    struct ptl_shm shm;
};

static struct sockaddr_un end_path;
static int listener;
static uint32_t own_pid;
static uint8_t source[20000], memory[1000], scratch[1u << 16];
static const uint64_t incarnation = 8;

static void open_ends (struct world *w)
{
    struct ptlx_config config = {
        .listen_pid = PTLX_NO_LISTEN,
        .unix_path = end_path.sun_path,
        .partition_key = partition_key,
        .is_local = 1,
    };
    ptl_md_t md = { .start = source, .length = sizeof (source),
                    .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE };
    ptl_me_t me = {
        .start = memory,
        .length = sizeof (memory),
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE,
        .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY },
        .ignore_bits = UINT64_MAX,
        .ct_handle = PTL_CT_NONE,
    };
    ptl_handle_me_t entry;
    ptl_pt_index_t index;

    end_open (&w->end, &config);
    config.unix_path = NULL;
    config.is_local = 0;
    end_open (&w->neighbour, &config);
    open_for_neighbour (&w->end, w->neighbour.id.phys.nid,
                        w->neighbour.id.phys.pid);
    HOLDS (PtlxSetAddress (w->neighbour.ni, 1, end_path.sun_path) == PTL_OK);
    HOLDS (PtlPTAlloc (w->end.ni, 0, w->end.eq, 2, &index) == PTL_OK);
    HOLDS (PtlMEAppend (w->end.ni, 2, &me, PTL_PRIORITY_LIST, NULL, &entry)
           == PTL_OK);
    md.eq_handle = w->end.eq;
    HOLDS (PtlMDBind (w->end.ni, &md, &w->md) == PTL_OK);
}

static void put (struct world *w, size_t length)
{
    ptl_process_t to = { .phys = { LOOPBACK, own_pid } };

    HOLDS (PtlPut (w->md, 0, length, PTL_ACK_REQ, to, 2, 0, 0, NULL, 0)
           == PTL_OK);
}

static void drop_memory (struct world *w)
{
    if (w->shm.memory)
        ptl_shm_free (&w->shm);
    memset (&w->shm, 0, sizeof (w->shm));
}

static void hang_up (struct world *w)
{
    if (w->fd >= 0)
        close (w->fd);
    w->fd = -1;
    drop_memory (w);
}

/* The end dials: answer as we should. */
static void accept_it (struct world *w)
{
    struct ptl_hello theirs, hello = {
        .version_min = PTL_VERSION_MIN,
        .version_max = PTL_VERSION_MAX,
        .version = PTL_VERSION_MAX,
        .key_kind = PTLX_KEY_PARTITION,
        .nid = LOOPBACK,
        .incarnation = incarnation,
    };
    uint8_t m1[PTL_M1_BYTES], m2[PTL_M2_BYTES], m3[PTL_M3_BYTES];
    uint8_t m4[PTL_M4_BYTES], session[PTLX_KEY_BYTES];

    hang_up (w);
    end_turn (&w->end);
    w->fd = accept4 (listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (w->fd < 0)
        return;
    if (get (&w->end, w->fd, m1, sizeof (m1))
        && ptl_auth_get_hello (1, m1, &theirs) == PTL_OK) {
        hello.pid = own_pid;
        hello.offers = theirs.offers | PTL_OFFER_MEMORY;
        ptl_auth_put_hello (2, &hello, m2);
        ptl_auth_listener_tag (partition_key, m1, m2, m2 + PTL_HELLO_BYTES);
        if (give (&w->end, w->fd, m2, sizeof (m2))
            && get (&w->end, w->fd, m3, sizeof (m3))) {
            ptl_auth_session (partition_key, "yod.s2c", m1, m2, m3, session);
            ptl_auth_put_m4 (session, PTL_CODE_READY, PTL_VERSION_MIN,
                             PTL_VERSION_MAX, m4);
            if (give (&w->end, w->fd, m4, sizeof (m4)))
                return;
        }
    }
    hang_up (w);
}

static void encode (struct ptl_frame *frame, uint8_t header[PTL_HEADER_BYTES])
{
    frame->incarnation = (uint32_t)incarnation;
    ptl_wire_encode (frame, header);
}

static void put_bytes (struct world *w, const void *data, size_t length)
{
    if (w->fd >= 0 && !give (&w->end, w->fd, data, length))
        hang_up (w);
}

/* Descriptors that are not what they should be. */
static void spoil (struct ptl_shm *shm, uint8_t how)
{
    int fd = -1;

    switch (how) {
    case 1: /* no seals */
        fd = memfd_create ("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        HOLDS (ftruncate (fd, (off_t)shm->length) == 0);
        break;
    case 2: /* too short */
        fd = memfd_create ("short", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        HOLDS (ftruncate (fd, 4096) == 0);
        HOLDS (fcntl (fd, F_ADD_SEALS,
                      F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
               == 0);
        break;
    case 3: /* no memory at all */
        fd = eventfd (0, EFD_CLOEXEC);
        break;
    case 4: /* no eventfd */
        HOLDS (dup2 (shm->fds[0], shm->fds[1]) >= 0);
        return;
    case 5: /* an eventfd that blocks, or counts as a semaphore */
        fd = eventfd (3, EFD_CLOEXEC | EFD_SEMAPHORE);
        HOLDS (dup2 (fd, shm->fds[1]) >= 0);
        close (fd);
        return;
    default:
        return;
    }
    HOLDS (dup2 (fd, shm->fds[0]) >= 0);
    close (fd);
}

static void step_offer (struct world *w)
{
    uint8_t how = take8 (&w->in), shift = take8 (&w->in);
    size_t ring = (size_t)4096 << how / 8 % 4;
    uint8_t header[PTL_HEADER_BYTES];
    struct ptl_frame frame = {
        .type = PTL_FRAME_MEMORY,
        .detail = PTL_MEMORY_OFFER,
        .total = ring,
    };

    if (w->fd < 0)
        return;
    drop_memory (w);
    HOLDS (ptl_shm_make (&w->shm, ring) == 0);
    spoil (&w->shm, how % 8);
    if (shift & 1)
        frame.total = shift & 2 ? ring + shift : UINT64_C (1) << shift / 4;
    encode (&frame, header);
    if (ptl_shm_give (&w->shm, w->fd, header, sizeof (header)) < 0)
        hang_up (w);
    else
        ptl_shm_given (&w->shm);
}

/* On the socket: a step of the switch, or another small frame. */
static void step_say (struct world *w)
{
    uint8_t what = take8 (&w->in), header[PTL_HEADER_BYTES];
    struct ptl_frame frame = {
        .type = what & 128 ? PTL_FRAME_PING + what % 3 : PTL_FRAME_MEMORY,
        .detail = what % 6,
        .total = what & 64 ? 4096 : 0,
    };

    encode (&frame, header);
    put_bytes (w, header, sizeof (header));
}

/* A count or a flag of either ring's head. */
static void step_lie (struct world *w)
{
    static const size_t at[] = { 0, 128, 256, 260 };
    uint8_t which = take8 (&w->in), by = take8 (&w->in);
    uint8_t *head = w->shm.memory;
    uint64_t value;

    if (!head)
        return;
    head += which / 4 % 2 * sizeof (struct ptl_ring_shared) + at[which % 4];
    memcpy (&value, head, which % 4 < 2 ? 8 : 4);
    value += (uint64_t)(int64_t)(int8_t)by << which / 8;
    memcpy (head, &value, which % 4 < 2 ? 8 : 4);
}

static void ring_bytes (struct world *w, void *data, size_t length)
{
    struct iovec part = { data, length };

    if (w->shm.memory)
        ptl_ring_write (&w->shm.out, &part, 1);
}

static void step_ring_put (struct world *w)
{
    uint8_t length = take8 (&w->in), kind = take8 (&w->in);
    struct ptl_frame frame = {
        .type = kind & 1 ? PTL_FRAME_PUT : kind % 12,
        .flags = PTL_FLAG_FIRST | PTL_FLAG_LAST,
        .lane = PTL_LANE_DATA,
        .pt_index = 2,
        .detail = kind / 16 % 4,
        .length = length,
        .total = length,
    };
    uint8_t header[PTL_HEADER_BYTES];

    if (!(kind & 1))
        frame.length = kind & 8 ? length : 0;
    encode (&frame, header);
    ring_bytes (w, header, sizeof (header));
    ring_bytes (w, source, length);
}

static void step_ring_bytes (struct world *w)
{
    uint8_t bytes[255];
    size_t n = take_bytes (&w->in, bytes, take8 (&w->in));

    ring_bytes (w, bytes, n);
}

static void step_read (struct world *w)
{
    struct iovec part = { scratch, take8 (&w->in) * 64u };

    if (w->shm.memory)
        ptl_ring_read (&w->shm.in, &part, 1);
    else if (w->fd >= 0)
        (void)!recv (w->fd, scratch, part.iov_len, 0);
}

static void step (struct world *w)
{
    static const int64_t ms[] = { 1, 60, 5000, 60000 };

    switch (take8 (&w->in) % 12) {
    case 0:
        put (w, take8 (&w->in) * 64u);
        break;
    case 1:
        end_turn (&w->end);
        break;
    case 2:
        step_offer (w);
        break;
    case 3:
        step_say (w);
        break;
    case 4:
        step_lie (w);
        break;
    case 5:
        step_ring_put (w);
        break;
    case 6:
        step_ring_bytes (w);
        break;
    case 7:
        if (w->shm.memory)
            ptl_shm_wake (&w->shm);
        break;
    case 8:
        step_read (w);
        break;
    case 9:
        pass_ms (ms[take8 (&w->in) % 4]);
        break;
    case 10:
        if (w->fd >= 0)
            shutdown (w->fd, SHUT_WR);
        break;
    case 11:
        accept_it (w);
        break;
    }
}

static void empty_backlog (void)
{
    int fd;

    while ((fd = accept (listener, NULL, NULL)) >= 0)
        close (fd);
}

/* At the abstract address of an id of ours. */
static void listen_near (void)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    int length;

    listener = socket (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    HOLDS (listener >= 0);
    for (own_pid = 1024;; own_pid++) {
        length = snprintf (un.sun_path + 1, sizeof (un.sun_path) - 1,
                           "portals-%08x-%08x", LOOPBACK, own_pid);
        if (bind (listener, (struct sockaddr *)&un,
                  (socklen_t)(offsetof (struct sockaddr_un, sun_path) + 1
                              + (size_t)length))
            == 0)
            break;
        HOLDS (errno == EADDRINUSE && own_pid < 2000);
    }
    HOLDS (listen (listener, 16) == 0);
}

static bool is_warm;

static void warm_up (void)
{
    static bool is_warming;

    if (is_warming)
        return;
    is_warming = true;
    make_directory ();
    end_path = path_of ("end");
    listen_near ();
    LLVMFuzzerTestOneInput (NULL, 0);
    is_warm = true;
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    struct world w = { .in = { data, size }, .fd = -1 };
    struct cost before;
    int steps = 0;

    warm_up ();
    forget_timers ();
    before = cost_now ();
    open_ends (&w);
    put (&w, 8);
    accept_it (&w);
    HOLDS (w.fd >= 0);
    while (w.in.left > 0 && steps++ < MOST_STEPS) {
        step (&w);
        end_turn (&w.end);
        check_cost (before, MOST_BYTES);
    }
    end_drive (&w.end);
    check_neighbour (&w.end, &w.neighbour);
    hang_up (&w);
    empty_backlog ();
    end_drive (&w.end);
    end_close (&w.neighbour);
    end_close (&w.end);
    if (is_warm)
        check_leaks (before);
    return 0;
}
