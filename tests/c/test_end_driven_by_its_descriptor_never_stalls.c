/* A loop drives an end only when its descriptor says so. Two ends do in one
 * process, so nobody else can move anything on: whatever the transport, the
 * traffic and the call that drives, the descriptor of one of them is readable
 * within a second until all has arrived. The one call is that of the daemons'
 * port, one look at a queue, or one at a counter.
 *
 * Arguments: the first seed and how many; then the bytes of a large put.
 */
#include "harness.h"

#define STALLED_MS 1000 /* a deadline that is over wakes after 5 s */
#define STEPS 60
#define SLABS 3
#define SLAB_BYTES (1u << 19)
#define SMALL_BYTES (64u * 1024)
#define ACK_DELAY_MS 250

enum drive { BY_EVENTS, BY_QUEUE, BY_COUNTER };
enum way { TCP, SEALED, UNIX, SHARED, WAYS };

struct member {
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq;
    ptl_handle_ct_t answers;
    ptl_handle_md_t md;
    ptl_process_t id;
    ptl_handle_me_t slabs[SLABS];
    uint8_t *slab, *memory, *source;
    int fd, n_linked;
    bool is_off;
    uint64_t sent, received; /* messages */
    uint64_t asked, answered;
};

static struct member members[2];
static enum drive drive;
static size_t large_bytes = 1u << 20;
static uint32_t seed;

static uint32_t draw (uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

/* ---- opening ---- */

static void link_slab (struct member *m, unsigned i)
{
    ptl_me_t me = {
        .start = m->slab + i * SLAB_BYTES,
        .length = SLAB_BYTES,
        .uid = PTL_UID_ANY,
        .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY },
        .ignore_bits = UINT64_MAX,
        .min_free = PTLX_MESSAGE_MAX_BYTES,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE
            | PTL_ME_MANAGE_LOCAL | PTL_ME_UNEXPECTED_HDR_DISABLE
            | PTL_ME_NO_TRUNCATE,
        .ct_handle = PTL_CT_NONE,
    };

    CHECK (PtlMEAppend (m->ni, 0, &me, PTL_OVERFLOW_LIST,
                        (void *)(uintptr_t)i, &m->slabs[i])
           == PTL_OK);
    m->n_linked++;
}

static void open_tables (struct member *m)
{
    ptl_me_t me = {
        .start = m->memory,
        .length = large_bytes,
        .uid = PTL_UID_ANY,
        .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY },
        .options = PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE
            | PTL_ME_EVENT_COMM_DISABLE,
        .ct_handle = PTL_CT_NONE,
    };
    ptl_md_t md = {
        .start = m->source,
        .length = large_bytes,
        .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY,
        .eq_handle = PTL_EQ_NONE,
        .ct_handle = m->answers,
    };
    ptl_handle_me_t handle;
    ptl_pt_index_t index;

    CHECK (PtlPTAlloc (m->ni, PTL_PT_FLOWCTRL, m->eq, 0, &index) == PTL_OK);
    for (unsigned i = 0; i < SLABS; i++)
        link_slab (m, i);
    CHECK (PtlPTAlloc (m->ni, 0, PTL_EQ_NONE, 1, &index) == PTL_OK);
    CHECK (PtlMEAppend (m->ni, 1, &me, PTL_PRIORITY_LIST, NULL, &handle)
           == PTL_OK);
    CHECK (PtlMDBind (m->ni, &md, &m->md) == PTL_OK);
}

static void open_member (struct member *m, enum way way)
{
    struct ptlx_config config = {
        .listen_nid = LOOPBACK,
        .partition_key = test_key,
        .ack_delay_ms = ACK_DELAY_MS,
        .integrity = way == SEALED ? PTLX_INTEGRITY_REQUIRED
                                   : PTLX_INTEGRITY_OFF,
        .is_local = way == UNIX || way == SHARED,
        .no_memory = way == UNIX,
    };

    memset (m, 0, sizeof (*m));
    m->slab = malloc (SLABS * SLAB_BYTES);
    m->memory = calloc (1, large_bytes);
    m->source = calloc (1, large_bytes);
    CHECK (m->slab && m->memory && m->source);
    CHECK (PtlxNIInit (&config, &m->ni) == PTL_OK);
    CHECK (PtlEQAlloc (m->ni, 64, &m->eq) == PTL_OK);
    CHECK (PtlCTAlloc (m->ni, &m->answers) == PTL_OK);
    CHECK (PtlGetPhysId (m->ni, &m->id) == PTL_OK);
    CHECK (PtlxFd (m->ni, &m->fd) == PTL_OK);
    open_tables (m);
}

static void close_member (struct member *m)
{
    CHECK (PtlxNIFini (m->ni, 0) == PTL_OK);
    free (m->slab);
    free (m->memory);
    free (m->source);
}

/* ---- driving ---- */

/* As the port does: off until a slab is linked again. */
static void turn_on (struct member *m)
{
    if (m->is_off && m->n_linked > 0) {
        m->is_off = false;
        CHECK (PtlPTEnable (m->ni, 0) == PTL_OK);
    }
}

static void take (struct member *m, uint32_t type, uint32_t fail,
                  const void *user_ptr)
{
    CHECK (fail == PTL_NI_OK || type == PTL_EVENT_PT_DISABLED);
    switch (type) {
    case PTL_EVENT_PUT:
        m->received++;
        break;
    case PTL_EVENT_AUTO_UNLINK:
        m->n_linked--;
        break;
    case PTL_EVENT_AUTO_FREE:
        link_slab (m, (unsigned)(uintptr_t)user_ptr);
        turn_on (m);
        break;
    case PTL_EVENT_PT_DISABLED:
        m->is_off = true;
        turn_on (m);
        break;
    default:
        CHECK (!"an event that nobody wants");
    }
}

static void take_events (struct member *m)
{
    struct ptlx_event events[128];
    int count;

    CHECK (PtlxEvents (m->ni, m->eq, events, 128, &count) == PTL_OK);
    for (int i = 0; i < count; i++)
        take (m, events[i].type, events[i].ni_fail, events[i].user_ptr);
}

static void take_one (struct member *m)
{
    ptl_event_t event;
    int rc = PtlEQGet (m->eq, &event);

    CHECK (rc == PTL_OK || rc == PTL_EQ_EMPTY);
    if (rc == PTL_OK)
        take (m, event.type, event.ni_fail_type, event.user_ptr);
}

static void look_at_answers (struct member *m)
{
    ptl_ct_event_t value;

    CHECK (PtlCTGet (m->answers, &value) == PTL_OK);
    CHECK (value.failure == 0);
    m->answered = value.success;
}

static void drive_one (struct member *m)
{
    if (drive == BY_EVENTS)
        take_events (m);
    else if (drive == BY_QUEUE)
        take_one (m);
    look_at_answers (m);
}

/* Who is readable is driven, once. False: nobody was for so long. */
static bool drive_both (int wait_ms)
{
    struct pollfd fds[2]
        = { { members[0].fd, POLLIN, 0 }, { members[1].fd, POLLIN, 0 } };
    int n;

    do
        n = poll (fds, 2, wait_ms);
    while (n < 0 && errno == EINTR);
    for (int i = 0; i < 2; i++)
        if (fds[i].revents)
            drive_one (&members[i]);
    return n > 0;
}

static bool is_over (void)
{
    bool over = true;

    for (int i = 0; i < 2; i++) {
        const struct member *m = &members[i], *other = &members[!i];

        over = over && m->received == other->sent && m->answered == m->asked;
    }
    return over;
}

/* ---- traffic ---- */

static void put (struct member *m, const struct member *to, uint64_t length)
{
    CHECK (PtlPut (m->md, 0, length, PTL_CT_ACK_REQ, to->id, 1, 0, 0, NULL, 0)
           == PTL_OK);
    m->asked++;
}

static void get (struct member *m, const struct member *to, uint64_t length)
{
    CHECK (PtlGet (m->md, 0, length, to->id, 1, 0, 0, NULL) == PTL_OK);
    m->asked++;
}

static void send_messages (struct member *m, const struct member *to)
{
    static const size_t sizes[]
        = { 0, 10, 1000, 60000, PTLX_MESSAGE_MAX_BYTES };
    size_t size = sizes[draw (5)];

    for (uint32_t n = draw (size > 1000 ? 12 : 200); n > 0; n--) {
        CHECK (PtlxSend (m->ni, to->id.phys.nid, to->id.phys.pid, m->source,
                         size)
               == PTL_OK);
        m->sent++;
    }
}

static void send_bundle (struct member *m, const struct member *to)
{
    CHECK (PtlStartBundle (m->ni) == PTL_OK);
    for (uint32_t n = draw (600); n > 0; n--)
        put (m, to, 4096);
    CHECK (PtlEndBundle (m->ni) == PTL_OK);
}

static void step (void)
{
    unsigned i = draw (2);
    struct member *m = &members[i], *to = &members[!i];

    switch (draw (drive == BY_COUNTER ? 9 : 13)) {
    case 0:
        put (m, to, large_bytes);
        put (to, m, large_bytes);
        break;
    case 1:
        get (m, to, large_bytes / 4);
        break;
    case 2:
        get (m, to, 300000);
        get (m, to, 1);
        break;
    case 3:
        send_bundle (m, to);
        break;
    case 4:
    case 5:
        for (uint32_t n = draw (100); n > 0; n--)
            put (m, to, draw (SMALL_BYTES));
        break;
    case 6:
    case 7:
    case 8: /* whatever is under way goes on */
        for (uint32_t n = draw (60); n > 0; n--)
            drive_both (0);
        break;
    default:
        send_messages (m, to);
    }
}

static void run (enum way way, uint32_t begin)
{
    int64_t from = now_ms ();

    seed = begin;
    open_member (&members[0], way);
    open_member (&members[1], way);
    for (int n = 0; n < STEPS; n++)
        step ();
    while (!is_over ())
        if (!drive_both (STALLED_MS)) {
            fprintf (stderr, "a stall: way %d, drive %d, seed %u\n", way,
                     drive, begin);
            exit (1);
        }
    if (getenv ("SHOW"))
        fprintf (stderr, "way %d drive %d seed %u: %lld ms\n", way, drive,
                 begin, (long long)(now_ms () - from));
    close_member (&members[0]);
    close_member (&members[1]);
}

int main (int argc, char **argv)
{
    uint32_t first = argc > 1 ? (uint32_t)atoi (argv[1]) : 1;
    uint32_t count = argc > 2 ? (uint32_t)atoi (argv[2]) : 1;

    if (argc > 3)
        large_bytes = (size_t)atol (argv[3]);
    CHECK (PtlInit () == PTL_OK);
    for (uint32_t n = 0; n < count; n++)
        for (drive = BY_EVENTS; drive <= BY_COUNTER; drive++)
            for (enum way way = TCP; way < WAYS; way++)
                run (way, first + n);
    PtlFini ();
    return 0;
}
