/* Peers that have proven themselves send mutated frames, in odd pieces, and
 * vanish in the middle; others send mutated handshakes. Under the sanitizers
 * nothing breaks, and a neighbour's put still arrives afterwards. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "ptl_auth.h"
#include "ptl_wire.h"

#define ROUNDS 1500

static unsigned seed = 12345;

static unsigned pick (unsigned below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static int dial (const struct end *end)
{
    struct sockaddr_in in = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl (LOOPBACK),
        .sin_port = htons ((uint16_t)end->id.phys.pid),
    };
    int fd = socket (AF_INET, SOCK_STREAM, 0);

    CHECK (fd >= 0);
    CHECK (connect (fd, (struct sockaddr *)&in, sizeof (in)) == 0);
    return fd;
}

/* Drive the end until `length` bytes have come, or the end of the stream. */
static bool take (struct end *end, int fd, uint8_t *to, size_t length)
{
    int64_t until = now_ms () + LIMIT_MS;
    size_t have = 0;
    ssize_t n;

    while (have < length) {
        CHECK (now_ms () < until);
        end->n = 0; /* the log is of no interest */
        end_take (end);
        n = recv (fd, to + have, length - have, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return false;
        have += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static void mutate (uint8_t *bytes, size_t length, unsigned times)
{
    while (times--)
        bytes[pick ((unsigned)length)] = (uint8_t)pick (256);
}

/* Handshake; with `wrong`, a byte of m1 or m3 is changed. */
static bool shake (struct end *end, int fd, uint64_t incarnation, bool wrong)
{
    struct ptl_hello hello = {
        .version_min = 1,
        .version_max = 1,
        .key_kind = PTLX_KEY_PARTITION,
        .nid = LOOPBACK,
        .pid = 1u << 20 | pick (4), /* few: they replace one another */
        .incarnation = incarnation,
        .intended_nid = PTL_NID_ANY,
        .intended_pid = PTL_PID_ANY,
    };
    uint8_t m1[PTL_M1_BYTES], m2[PTL_M2_BYTES], m3[PTL_M3_BYTES];
    uint8_t m4[PTL_M4_BYTES];

    ptl_auth_put_hello (1, &hello, m1);
    if (wrong && pick (2))
        mutate (m1, sizeof (m1), 1 + pick (3));
    CHECK (send (fd, m1, sizeof (m1), MSG_NOSIGNAL) == sizeof (m1));
    if (!take (end, fd, m2, 8) || m2[4] != 2)
        return false;
    if (!take (end, fd, m2 + 8, sizeof (m2) - 8))
        return false;
    ptl_auth_put_m3 (test_key, m1, m2, m3);
    if (wrong)
        mutate (m3, sizeof (m3), pick (3));
    send (fd, m3, sizeof (m3) - (wrong ? pick (9) : 0), MSG_NOSIGNAL);
    if (wrong)
        shutdown (fd, SHUT_WR);
    return take (end, fd, m4, sizeof (m4)) && m4[5] == PTL_CODE_READY;
}

/* Operations in fragments that the attacker has begun. */
struct begun {
    uint32_t fragment; /* next; 0: none is open */
    uint64_t received, total;
};

static struct begun begun[10];

/* What the rules allow: whole puts, first and further fragments. */
static void allowed (struct ptl_frame *frame)
{
    struct begun *op = &begun[frame->op_index];

    frame->type = PTL_FRAME_PUT;
    frame->flags = (uint16_t)(pick (4) ? PTL_FLAG_RETRY : 0);
    if (op->fragment == 0 && pick (3)) {
        frame->flags |= PTL_FLAG_FIRST | PTL_FLAG_LAST;
        frame->total = frame->length;
        return;
    }
    if (op->fragment == 0) {
        frame->length = 1 + pick (500);
        *op = (struct begun){ 1, frame->length, frame->length + 1 };
        op->total += pick (900);
        frame->flags |= PTL_FLAG_FIRST;
        frame->total = op->total;
        return;
    }
    frame->length = 1 + pick (500);
    if (frame->length >= op->total - op->received) {
        frame->length = (uint32_t)(op->total - op->received);
        frame->flags |= PTL_FLAG_LAST;
    }
    frame->offset = op->received;
    frame->fragment = op->fragment++;
    frame->total = op->total;
    op->received += frame->length;
    if (op->received == op->total)
        op->fragment = 0;
}

static size_t one_frame (uint8_t *to, uint64_t incarnation)
{
    struct ptl_frame frame = {
        .lane = (uint8_t)pick (3),
        .pt_index = (uint8_t)pick (4),
        .detail = (uint8_t)pick (3),
        .length = pick (600),
        .incarnation = (uint32_t)incarnation,
        .op_index = pick (8),
        .match_bits = pick (3),
        .offset = pick (1200),
    };

    allowed (&frame);
    if (pick (40) == 0)
        frame.type = (uint8_t)pick (11);
    ptl_wire_encode (&frame, to);
    if (pick (40) == 0)
        mutate (to, PTL_HEADER_BYTES, 1);
    memset (to + PTL_HEADER_BYTES, 0xaa, 600);
    return PTL_HEADER_BYTES + (frame.length < 600 ? frame.length : 600);
}

static void attack (struct end *end)
{
    uint8_t bytes[40 * 700], answer[1];
    uint64_t incarnation = pick (1u << 20) + 1;
    size_t length = 0, done = 0, part;
    int fd = dial (end);

    memset (begun, 0, sizeof (begun));
    if (shake (end, fd, incarnation, pick (4) == 0)) {
        for (unsigned n = 1 + pick (30); n > 0; n--)
            length += one_frame (bytes + length, incarnation);
        length -= pick (3) ? 0 : pick ((unsigned)length);
        while (done < length) {
            part = 1 + pick (3000);
            part = part < length - done ? part : length - done;
            if (send (fd, bytes + done, part, MSG_NOSIGNAL) < 0)
                break;
            done += part;
            end_take (end);
            end->n = 0;
        }
        if (pick (2)) {
            shutdown (fd, SHUT_WR);
            while (take (end, fd, answer, 1))
                ;
        }
    }
    close (fd);
}

int main (void)
{
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    static char memory[3][1000], source[8] = "neighbr";
    ptl_handle_md_t md;

    end_open (a, 64);
    end_open (b, 1024);
    for (int i = 0; i < 3; i++) {
        ptl_me_t me = {
            .start = memory[i],
            .length = sizeof (memory[i]),
            .uid = PTL_UID_ANY,
            .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE,
            .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY },
            .ignore_bits = i == 2 ? UINT64_MAX : 0,
            .match_bits = (uint64_t)i,
            .ct_handle = PTL_CT_NONE,
        };
        ptl_handle_me_t handle;

        CHECK (open_table (b, i == 1 ? PTL_PT_FLOWCTRL : 0)
               == (ptl_pt_index_t)i);
        CHECK (PtlMEAppend (b->ni, (ptl_pt_index_t)i, &me, PTL_PRIORITY_LIST,
                            NULL, &handle)
               == PTL_OK);
    }
    md = bind_memory (a, source, sizeof (source), 0, PTL_CT_NONE);
    for (int i = 0; i < ROUNDS; i++)
        attack (b);
    b->n = 0;
    CHECK (PtlPut (md, 0, 8, PTL_ACK_REQ, b->id, 2, 0, 0, NULL, 42)
           == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_ACK, 1);
    CHECK (strcmp (memory[2], "neighbr") == 0);
    end_close (a);
    end_close (b);
    return 0;
}
