/* fuzz_frames.c - proven peers that send anything, to an end with everything.
 *
 * The end has entries of several kinds, an armed object with a child, and
 * operations outstanding to the two attackers. An input is a list of steps:
 * what an attacker sends (well-formed, with fields changed, in part, or any
 * bytes), how much it reads, when it leaves and comes back, what the end does
 * meanwhile, and how time passes. Afterwards a neighbour's put arrives,
 * and all that was used is given back.
 */
#include <sys/mman.h>

#include "fuzz.h"

#define ATTACKERS 2
#define OPS 8
#define SEEN 8
#define OBJECT_BITS (UINT64_C (9) << 16 | 4)
#define OBJECT_BYTES 5000
#define CHUNK_BYTES 1000
#define LARGE_BYTES 600000u
#define MOST_BYTES (4u << 20)
#define MOST_SENT (1u << 20) /* by the attackers, an input */
#define MOST_STEPS 200
#define MOST_ENTRIES 16

/* An operation in fragments that an attacker has begun. */
struct begun {
    uint32_t fragment; /* next; 0: none is open */
    uint64_t received, total;
    uint8_t lane, pt_index;
};

/* An operation of the end that an attacker has seen. */
struct seen {
    uint32_t index, generation;
    uint64_t length;
    uint64_t replied; /* bytes */
    uint32_t fragment;
};

struct attacker {
    int fd; /* -1: not connected */
    uint32_t pid;
    uint64_t incarnation;
    struct begun begun[OPS];
    struct seen seen[SEEN];
    unsigned n_seen;
    uint8_t header[PTL_HEADER_BYTES]; /* half read */
    size_t have, skip;
};

struct world {
    struct end end, neighbour;
    struct attacker attackers[ATTACKERS], *now;
    struct input in;
    size_t sent;
    int n_entries;
    ptl_handle_md_t md;
    ptl_handle_ct_t ct;
    ptl_handle_me_t entry;
    uint8_t *memory[3]; /* on the heap: nothing may be written beside them */
};

static uint8_t large[LARGE_BYTES];
static uint8_t payload[PTL_PAYLOAD_MAX];
static struct sockaddr_un end_path;
static int object_fd;

/* ---- the end ---- */

static void add_entry (struct world *w, ptl_pt_index_t index, uint8_t *memory,
                       unsigned options, uint64_t bits, ptl_list_t list)
{
    ptl_me_t me = {
        .start = memory,
        .length = 1000,
        .ct_handle = w->ct,
        .min_free = 100,
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_OP_GET | options,
        .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY },
        .match_bits = bits,
        .ignore_bits = bits ? 0 : UINT64_MAX,
    };

    if (w->n_entries++ >= MOST_ENTRIES)
        return;
    HOLDS (PtlMEAppend (w->end.ni, index, &me, list, NULL, &w->entry)
           == PTL_OK);
}

static void add_entries (struct world *w)
{
    add_entry (w, 0, w->memory[0],
               PTL_ME_MANAGE_LOCAL | PTL_ME_EVENT_LINK_DISABLE, 0,
               PTL_PRIORITY_LIST);
    add_entry (w, 2, w->memory[1], PTL_ME_EVENT_CT_COMM, 0,
               PTL_PRIORITY_LIST);
    add_entry (w, 3, w->memory[2], PTL_ME_USE_ONCE | PTL_ME_EVENT_CT_COMM, 0,
               PTL_PRIORITY_LIST);
    add_entry (w, 4, w->memory[1], PTL_ME_NO_TRUNCATE | PTL_ME_ACK_DISABLE, 3,
               PTL_PRIORITY_LIST);
    add_entry (w, 4, w->memory[2],
               PTL_ME_UNEXPECTED_HDR_DISABLE | PTL_ME_MANAGE_LOCAL, 0,
               PTL_OVERFLOW_LIST);
}

static void arm_object (struct world *w, bool is_source)
{
    ptl_process_t child = { .phys = { LOOPBACK, w->attackers[1].pid } };
    struct ptlx_object object = {
        .match_bits = OBJECT_BITS,
        .job_id = 9,
        .size = OBJECT_BYTES,
        .chunk_bytes = CHUNK_BYTES,
        .children = &child,
        .n_children = 1,
        .fd = object_fd,
        .is_source = is_source,
    };
    int rc = PtlxForward (w->end.ni, &object);

    HOLDS (rc == PTL_OK || rc == PTL_IN_USE);
}

static void open_ends (struct world *w)
{
    struct ptlx_config config = {
        .listen_pid = PTLX_NO_LISTEN,
        .unix_path = end_path.sun_path,
        .partition_key = partition_key,
    };
    ptl_md_t md = { .start = large, .length = sizeof (large),
                    .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE };
    ptl_pt_index_t index;

    end_open (&w->end, &config);
    config.unix_path = NULL;
    end_open (&w->neighbour, &config);
    open_for_neighbour (&w->end, w->neighbour.id.phys.nid,
                        w->neighbour.id.phys.pid);
    for (unsigned i = 0; i < 5; i++)
        if (i != 1) /* objects */
            HOLDS (PtlPTAlloc (w->end.ni, i == 0 || i == 3 ? PTL_PT_FLOWCTRL
                                                           : 0,
                               w->end.eq, i, &index)
                   == PTL_OK);
    HOLDS (PtlCTAlloc (w->end.ni, &w->ct) == PTL_OK);
    for (int i = 0; i < 3; i++)
        HOLDS ((w->memory[i] = calloc (1, 1000)));
    md.eq_handle = w->end.eq;
    md.ct_handle = w->ct;
    md.options = PTL_MD_EVENT_CT_ACK;
    HOLDS (PtlMDBind (w->end.ni, &md, &w->md) == PTL_OK);
    add_entries (w);
    arm_object (w, false);
}

/* ---- an attacker and its connection ---- */

static void hang_up (struct attacker *a)
{
    if (a->fd >= 0)
        close (a->fd);
    a->fd = -1;
    a->n_seen = 0;
    a->have = a->skip = 0;
    memset (a->begun, 0, sizeof (a->begun));
}

static void shake (struct world *w, struct attacker *a)
{
    struct ptl_hello hello = {
        .version_min = PTL_VERSION_MIN,
        .version_max = PTL_VERSION_MAX,
        .key_kind = PTLX_KEY_PARTITION,
        .nid = LOOPBACK,
        .pid = a->pid,
        .incarnation = a->incarnation,
        .intended_nid = PTL_NID_ANY,
        .intended_pid = PTL_PID_ANY,
    };
    uint8_t m1[PTL_M1_BYTES], m2[PTL_M2_BYTES], m3[PTL_M3_BYTES];
    uint8_t m4[PTL_M4_BYTES];

    hang_up (a);
    if ((a->fd = dial (&end_path)) < 0)
        return;
    ptl_auth_put_hello (1, &hello, m1);
    if (give (&w->end, a->fd, m1, sizeof (m1))
        && get (&w->end, a->fd, m2, sizeof (m2))) {
        ptl_auth_put_m3 (partition_key, m1, m2, m3);
        if (give (&w->end, a->fd, m3, sizeof (m3))
            && get (&w->end, a->fd, m4, sizeof (m4))
            && m4[5] == PTL_CODE_READY)
            return;
    }
    hang_up (a);
}

static void put_bytes (struct world *w, const void *data, size_t length)
{
    if (w->now->fd < 0 || w->sent + length > MOST_SENT)
        return;
    w->sent += length;
    if (!give (&w->end, w->now->fd, data, length))
        hang_up (w->now);
}

/* A frame and of its payload at most `most` bytes. */
static void put_frame (struct world *w, struct ptl_frame *frame, size_t most)
{
    uint8_t header[PTL_HEADER_BYTES];
    size_t length = frame->length < sizeof (payload) ? frame->length
                                                     : sizeof (payload);

    frame->incarnation += (uint32_t)w->now->incarnation;
    ptl_wire_encode (frame, header);
    put_bytes (w, header, sizeof (header));
    put_bytes (w, payload, length < most ? length : most);
}

static void see (struct attacker *a)
{
    struct ptl_frame frame;

    HOLDS (ptl_wire_decode (a->header, &frame) == PTL_OK);
    a->skip = frame.length;
    if (frame.type == PTL_FRAME_PUT || frame.type == PTL_FRAME_GET
        || frame.type == PTL_FRAME_ATOMIC || frame.type == PTL_FRAME_FETCH)
        a->seen[a->n_seen++ % SEEN] = (struct seen){
            frame.op_index, frame.op_generation, frame.total, 0, 0
        };
}

/* Read at most so many bytes; they are frames, as our end sends no other. */
static void read_some (struct world *w, size_t most)
{
    struct attacker *a = w->now;
    uint8_t *to;
    size_t room;
    ssize_t n;

    while (a->fd >= 0 && most > 0) {
        to = a->skip > 0 ? payload : a->header + a->have;
        room = a->skip > 0 ? a->skip : PTL_HEADER_BYTES - a->have;
        room = room < sizeof (payload) ? room : sizeof (payload);
        n = recv (a->fd, to, room < most ? room : most, 0);
        if (n <= 0)
            return;
        most -= (size_t)n;
        if (a->skip > 0) {
            a->skip -= (size_t)n;
            continue;
        }
        a->have += (size_t)n;
        if (a->have < PTL_HEADER_BYTES)
            continue;
        a->have = 0;
        see (a);
    }
}

/* ---- steps ---- */

/* Lengths at the edges of what is allowed, by one byte of the input. */
static uint64_t size_of (uint8_t byte)
{
    static const uint64_t edges[] = {
        256, 999, 1000, 1001, 4096, 5000, 65471, 65472, 65535, 65536, 65537,
        262143, 262144, 262145, 600000, 1u << 31, UINT32_MAX,
        UINT64_C (1) << 48, (UINT64_C (1) << 48) + 1, UINT64_MAX,
    };
    const size_t n = sizeof (edges) / sizeof (*edges);

    return byte < 256 - n ? byte : edges[byte - (256 - n)];
}

/* The next fragment of a slot, or a whole put: as FRAMES.md allows. */
static void step_allowed (struct world *w, size_t most)
{
    uint8_t what = take8 (&w->in), where = take8 (&w->in);
    struct begun *op = &w->now->begun[what % OPS];
    struct ptl_frame frame = {
        .type = PTL_FRAME_PUT,
        .op_index = what % OPS,
        .lane = (uint8_t)(where >> 6) % PTL_LANES,
        .pt_index = where % 6,
        .detail = where / 6 % 4,
        .match_bits = what & 8 ? 3 : 0,
        .flags = what & 16 ? PTL_FLAG_RETRY : 0,
        .length = (uint32_t)size_of (take8 (&w->in)) % (PTL_PAYLOAD_MAX + 1),
    };

    if (what & 32)
        frame.flags |= PTL_FLAG_RESEND;
    if (op->fragment > 0) {
        frame.length += frame.length == 0;
        frame.lane = op->lane;
        frame.pt_index = op->pt_index;
        frame.fragment = op->fragment++;
        frame.offset = op->received;
        if (frame.length >= op->total - op->received)
            frame.length = (uint32_t)(op->total - op->received);
        frame.total = op->total;
    }
    else if (what & 64) {
        frame.length += frame.length == 0;
        frame.offset = size_of (take8 (&w->in));
        frame.total = size_of (take8 (&w->in)) % LARGE_BYTES;
        frame.total += frame.length + 1;
        frame.flags |= PTL_FLAG_FIRST;
        *op = (struct begun){ 1, 0, frame.total, frame.lane, frame.pt_index };
    }
    else {
        frame.offset = size_of (take8 (&w->in));
        frame.flags |= PTL_FLAG_FIRST | PTL_FLAG_LAST;
        frame.total = frame.length;
    }
    if (op->fragment > 0) {
        op->received += frame.length;
        if (op->received == op->total) {
            frame.flags |= PTL_FLAG_LAST;
            op->fragment = 0;
        }
    }
    put_frame (w, &frame, most);
}

/* The next chunk of the object, or what looks like it. */
static void step_chunk (struct world *w)
{
    uint8_t chunk = take8 (&w->in), length = take8 (&w->in);
    struct ptl_frame frame = {
        .type = PTL_FRAME_PUT,
        .flags = PTL_FLAG_FIRST | PTL_FLAG_LAST,
        .lane = PTL_LANE_BULK,
        .pt_index = 1,
        .detail = PTL_ACK_REQ,
        .length = length ? (uint32_t)size_of (length) % PTL_PAYLOAD_MAX
                         : CHUNK_BYTES,
        .match_bits = OBJECT_BITS,
        .offset = (uint64_t)chunk * CHUNK_BYTES,
    };

    frame.total = frame.length;
    put_frame (w, &frame, SIZE_MAX);
}

/* Every field as the input says. */
static void step_any (struct world *w)
{
    uint8_t type = take8 (&w->in);
    struct ptl_frame frame = {
        .type = type < 128 ? PTL_FRAME_PUT : type % 12,
        .flags = take8 (&w->in) & 0x1f,
        .lane = take8 (&w->in) & 3,
        .pt_index = take8 (&w->in) % 66,
        .detail = take8 (&w->in) % 10,
        .op_index = take8 (&w->in),
        .op_generation = take8 (&w->in),
        .length = (uint32_t)size_of (take8 (&w->in)),
        .total = size_of (take8 (&w->in)),
        .fragment = take8 (&w->in),
        .match_bits = take8 (&w->in),
        .offset = size_of (take8 (&w->in)),
    };
    uint8_t rest = take8 (&w->in);

    frame.incarnation = rest == 1;
    frame.kind = rest == 2;
    frame.operation = rest == 3;
    frame.datatype = rest == 4;
    put_frame (w, &frame, rest & 128 ? take8 (&w->in) : SIZE_MAX);
}

static void step_ack (struct world *w)
{
    uint8_t which = take8 (&w->in), detail = take8 (&w->in);
    const struct seen *seen = &w->now->seen[which % SEEN];
    struct ptl_frame frame = {
        .type = PTL_FRAME_ACK,
        .detail = detail % 10,
        .op_index = seen->index,
        .op_generation = seen->generation + (which & 64 ? 1 : 0),
        .total = which & 128 ? size_of (take8 (&w->in)) : seen->length,
    };

    put_frame (w, &frame, 0);
}

/* The next fragment of an answer, or what looks like it. */
static void step_reply (struct world *w)
{
    uint8_t which = take8 (&w->in), detail = take8 (&w->in);
    struct seen *seen = &w->now->seen[which % SEEN];
    uint64_t length = size_of (take8 (&w->in)), left;
    struct ptl_frame frame = {
        .type = PTL_FRAME_REPLY,
        .detail = detail & 128 ? detail % 10 : PTL_NI_OK,
        .op_index = seen->index,
        .op_generation = seen->generation + (which & 64 ? 1 : 0),
        .fragment = seen->fragment,
        .offset = seen->replied,
        .total = seen->length,
    };

    if (which & 128)
        frame.total = length;
    left = frame.total - seen->replied;
    if (length > left && !(which & 32))
        length = left;
    frame.length = (uint32_t)(length % (PTL_PAYLOAD_MAX + 1));
    frame.flags = (uint16_t)((seen->fragment == 0 ? PTL_FLAG_FIRST : 0)
                             | (frame.length == left ? PTL_FLAG_LAST : 0));
    seen->fragment++;
    seen->replied += frame.length;
    put_frame (w, &frame, SIZE_MAX);
}

/* A get, an atomic operation, a fetch or a swap. */
static void step_operation (struct world *w)
{
    static const uint8_t types[]
        = { PTL_FRAME_GET, PTL_FRAME_ATOMIC, PTL_FRAME_FETCH };
    uint8_t what = take8 (&w->in), how = take8 (&w->in);
    struct ptl_frame frame = {
        .type = types[what % 3],
        .flags = PTL_FLAG_FIRST | PTL_FLAG_LAST,
        .lane = PTL_LANE_DATA,
        .pt_index = what / 3 % 6,
        .kind = what / 18 % 16 == 13 ? 3 : 0,
        .operation = how % 20,
        .datatype = take8 (&w->in) % 16,
        .match_bits = 3,
        .op_index = what,
        .total = size_of (take8 (&w->in)),
        .offset = size_of (take8 (&w->in)),
    };

    if (frame.type == PTL_FRAME_GET)
        frame.operation = frame.datatype = 0;
    else
        frame.length = (uint32_t)frame.total + how / 20;
    frame.detail = frame.type == PTL_FRAME_ATOMIC ? how % 4 : 0;
    put_frame (w, &frame, SIZE_MAX);
}

/* The end does as much to the attacker. */
static void step_end_asks (struct world *w)
{
    uint8_t what = take8 (&w->in), type = take8 (&w->in);
    uint64_t length = size_of (take8 (&w->in)) % LARGE_BYTES;
    uint64_t operand[4] = { 1 };
    ptl_process_t to = { .phys = { LOOPBACK, w->now->pid } };
    ptl_op_t operation = (ptl_op_t)(what / 4 % 20);
    ptl_datatype_t datatype = (ptl_datatype_t)(type % 16);
    int rc;

    if (type & 128)
        to = w->end.id;
    switch (what % 4) {
    case 0:
        rc = PtlGet (w->md, 0, length, to, 2, 3, 0, NULL);
        break;
    case 1:
        rc = PtlAtomic (w->md, 0, length, PTL_ACK_REQ, to, 2, 3, 0, NULL, 0,
                        operation, datatype);
        break;
    case 2:
        rc = PtlFetchAtomic (w->md, 0, w->md, LARGE_BYTES / 2, length, to, 2,
                             3, 0, NULL, 0, operation, datatype);
        break;
    default:
        rc = PtlSwap (w->md, 0, w->md, LARGE_BYTES / 2, length, to, 2, 3, 0,
                      NULL, 0, operand, operation, datatype);
        break;
    }
    HOLDS (rc == PTL_OK || rc == PTL_ARG_INVALID);
}

/* A header byte for byte, as in FRAMES.md; the incarnation is put right. */
static void step_header (struct world *w)
{
    uint8_t header[PTL_HEADER_BYTES];
    uint32_t length;

    take_bytes (&w->in, header, sizeof (header));
    for (int i = 0; i < 4; i++)
        header[12 + i] = (uint8_t)(w->now->incarnation >> 8 * i);
    memcpy (&length, header + 8, sizeof (length));
    put_bytes (w, header, sizeof (header));
    put_bytes (w, payload,
               length < sizeof (payload) ? length : sizeof (payload));
}

static void step_bytes (struct world *w)
{
    uint8_t bytes[255];
    size_t n = take_bytes (&w->in, bytes, take8 (&w->in));

    put_bytes (w, bytes, n);
}

static void step_small (struct world *w)
{
    struct ptl_frame frame = {
        .type = (uint8_t)(PTL_FRAME_PING + take8 (&w->in) % 3)
    };

    put_frame (w, &frame, 0);
}

static void step_pass (struct world *w)
{
    static const int64_t ms[] = { 1, 2, 20, 60, 1000, 5000, 30000, 60000 };

    pass_ms (ms[take8 (&w->in) % 8]);
}

static void step_put (struct world *w)
{
    uint8_t how = take8 (&w->in);
    uint64_t length = size_of (take8 (&w->in));
    ptl_process_t to = { .phys = { LOOPBACK, w->now->pid } };

    if (how & 128)
        to = w->end.id;
    if (length > sizeof (large))
        length = sizeof (large);
    HOLDS (PtlPut (w->md, 0, length, how % 4 ? (ptl_ack_req_t)(how % 4)
                                             : PTL_NO_ACK_REQ,
                   to, how / 4 % 6, 3, 0, NULL, 0)
           == PTL_OK);
}

static void step_message (struct world *w)
{
    uint64_t length = size_of (take8 (&w->in)) % (PTLX_MESSAGE_MAX_BYTES + 1);

    if (w->sent + length > MOST_SENT)
        return;
    w->sent += length;
    HOLDS (PtlxSend (w->end.ni, LOOPBACK, w->now->pid, large, length)
           == PTL_OK);
}

static void step_end (struct world *w)
{
    uint8_t what = take8 (&w->in);
    ptl_process_t to = { .phys = { LOOPBACK, w->now->pid } };

    switch (what % 9) {
    case 0:
        HOLDS (PtlxDisconnect (w->end.ni, LOOPBACK, w->now->pid) == PTL_OK);
        break;
    case 1:
        HOLDS (PtlPTEnable (w->end.ni, what / 9 % 2 ? 0 : 3) == PTL_OK);
        break;
    case 2: /* PtlPTDisable waits for what lands, so for the attackers */
        break;
    case 3:
        add_entry (w, what / 9 % 2 ? 3 : 0, w->memory[what / 18 % 3],
                   what / 9 % 2 ? PTL_ME_USE_ONCE : PTL_ME_MANAGE_LOCAL, 0,
                   PTL_PRIORITY_LIST);
        break;
    case 4: /* it may be gone by now */
        (void)PtlMEUnlink (w->entry);
        break;
    case 5:
        HOLDS (PtlxCancel (w->end.ni, OBJECT_BITS) == PTL_OK);
        break;
    case 6:
        arm_object (w, what / 9 % 2);
        break;
    case 7:
        HOLDS (PtlTriggeredPut (w->md, 0, 100, PTL_ACK_REQ, to, 2, 0, 0, NULL,
                                0, w->ct, what / 9)
               == PTL_OK);
        break;
    case 8:
        HOLDS (PtlCTInc (w->ct, (ptl_ct_event_t){ what / 9 % 2,
                                                  what / 18 % 2 })
               == PTL_OK);
        break;
    }
}

/* Leave and come back, perhaps as another process, perhaps at once. */
static void step_again (struct world *w)
{
    uint8_t how = take8 (&w->in);
    struct attacker *a = w->now;

    if (how & 1 && a->fd >= 0)
        shutdown (a->fd, SHUT_WR);
    if (how & 2)
        a->incarnation++;
    if (how & 4) { /* the old connection stays open meanwhile */
        int old = a->fd;

        a->fd = -1;
        shake (w, a);
        if (old >= 0)
            close (old);
    }
    else if (how & 8)
        hang_up (a);
    else
        shake (w, a);
}

static void step (struct world *w)
{
    switch (take8 (&w->in) % 20) {
    case 0:
    case 16:
        step_allowed (w, SIZE_MAX);
        break;
    case 1:
        step_any (w);
        break;
    case 2:
        step_ack (w);
        break;
    case 3:
        step_header (w);
        break;
    case 4:
        step_bytes (w);
        break;
    case 5:
        step_small (w);
        break;
    case 6:
        end_turn (&w->end);
        break;
    case 7:
        step_pass (w);
        break;
    case 8:
        read_some (w, (size_t)size_of (take8 (&w->in)));
        break;
    case 9:
        step_put (w);
        break;
    case 10:
        step_message (w);
        break;
    case 11:
        step_end (w);
        break;
    case 12:
        w->now = &w->attackers[w->now == &w->attackers[0]];
        break;
    case 13:
        step_again (w);
        break;
    case 14:
        step_chunk (w);
        break;
    case 15:
        step_allowed (w, take8 (&w->in)); /* in part: what follows is lost */
        break;
    case 17:
        step_operation (w);
        break;
    case 18:
        step_end_asks (w);
        break;
    case 19:
        step_reply (w);
        break;
    }
}

/* What is for good is made by an input of its own: the table of handles. */
static bool is_warm;

static void warm_up (void)
{
    static bool is_warming;

    if (is_warming)
        return;
    is_warming = true;
    make_directory ();
    end_path = path_of ("end");
    memset (payload, 0xaa, sizeof (payload));
    HOLDS ((object_fd = memfd_create ("object", MFD_CLOEXEC)) >= 0);
    HOLDS (posix_fallocate (object_fd, 0, OBJECT_BYTES) == 0);
    LLVMFuzzerTestOneInput (NULL, 0);
    is_warm = true;
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    struct world w = { .in = { data, size } };
    struct cost before;
    int steps = 0;

    warm_up ();
    forget_timers ();
    before = cost_now ();
    for (int i = 0; i < ATTACKERS; i++)
        w.attackers[i] = (struct attacker){
            .fd = -1, .pid = 1u << 20 | (unsigned)i, .incarnation = 1
        };
    w.now = &w.attackers[0];
    open_ends (&w);
    PtlxSetAddress (w.neighbour.ni, 1, end_path.sun_path);
    for (int i = 0; i < ATTACKERS; i++)
        shake (&w, &w.attackers[i]);
    while (w.in.left > 0 && steps++ < MOST_STEPS) {
        step (&w);
        end_turn (&w.end);
        check_cost (before, MOST_BYTES);
    }
    end_drive (&w.end);
    check_neighbour (&w.end, &w.neighbour);
    for (int i = 0; i < ATTACKERS; i++)
        hang_up (&w.attackers[i]);
    end_drive (&w.end);
    end_close (&w.neighbour);
    end_close (&w.end);
    for (int i = 0; i < 3; i++)
        free (w.memory[i]);
    if (is_warm)
        check_leaks (before);
    return 0;
}
