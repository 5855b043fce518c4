/* FRAMES.md 3.2, integrity: somebody between two ends flips any bit of a put,
 * repeats it, leaves it out or takes back an offer. Nothing of that is
 * believed: no event of the put, no byte of another place, the connection
 * ends. Unchanged, everything arrives, in fragments as well; with an end that
 * does not do it, one that wants it speaks all the same and one that requires
 * it does not. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "harness.h"
#include "ptl_auth.h"
#include "ptl_seal.h"
#include "ptl_wire.h"

#define LARGE 600000u
#define SHAKE_BYTES (PTL_M1_BYTES + PTL_M3_BYTES)
#define FRAME_BYTES (PTL_HEADER_BYTES + 8 + 2 * PTL_SEAL_BYTES)
#define TABLE_NID 5

static struct end ends[2], *a = &ends[0], *b = &ends[1];
static uint8_t source[LARGE], target[LARGE], old[LARGE];
static char real[64], between[64];

/* The one in between. Offsets count what the dialler sends, m1 included. */
static struct {
    int listener, to_a, to_b;
    uint64_t seen; /* of what a sends */
    int64_t flip_at; /* bit; -1: none */
    int64_t flip_back; /* bit of what b sends */
    bool repeats, drops; /* the first frame */
    uint64_t seen_back;
    bool has_repeated;
} middle;

static int unix_socket (const char *path, bool listens)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf (un.sun_path, sizeof (un.sun_path), "%s", path);
    if (listens) {
        unlink (path);
        CHECK (bind (fd, (struct sockaddr *)&un, sizeof (un)) == 0);
        CHECK (listen (fd, 5) == 0);
    }
    else
        CHECK (connect (fd, (struct sockaddr *)&un, sizeof (un)) == 0);
    return fd;
}

static void flip (uint8_t *data, ssize_t n, uint64_t seen, int64_t bit)
{
    int64_t at = bit / 8 - (int64_t)seen;

    if (bit >= 0 && at >= 0 && at < n)
        data[at] ^= (uint8_t)(1u << bit % 8);
}

static void give (int fd, const uint8_t *data, size_t n)
{
    int64_t until = now_ms () + LIMIT_MS;
    ssize_t sent;

    while (n > 0 && now_ms () < until) {
        sent = send (fd, data, n, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            return; /* it has hung up */
        if (sent < 0) {
            end_take (a);
            end_take (b);
            continue;
        }
        data += sent;
        n -= (size_t)sent;
    }
}

static void forward (void)
{
    uint8_t data[65536];
    ssize_t n = recv (middle.to_a, data, sizeof (data), 0);

    if (n == 0)
        shutdown (middle.to_b, SHUT_WR);
    if (n <= 0)
        return;
    flip (data, n, middle.seen, middle.flip_at);
    if (middle.seen == SHAKE_BYTES && middle.drops) {
        middle.drops = false;
        CHECK (n >= FRAME_BYTES);
        give (middle.to_b, data + FRAME_BYTES, (size_t)n - FRAME_BYTES);
    }
    else {
        give (middle.to_b, data, (size_t)n);
    }
    if (middle.seen == SHAKE_BYTES && middle.repeats)
        give (middle.to_b, data, FRAME_BYTES);
    middle.seen += (uint64_t)n;
}

static void back (void)
{
    uint8_t data[65536];
    ssize_t n = recv (middle.to_b, data, sizeof (data), 0);

    if (n == 0)
        shutdown (middle.to_a, SHUT_WR);
    if (n <= 0)
        return;
    flip (data, n, middle.seen_back, middle.flip_back);
    give (middle.to_a, data, (size_t)n);
    middle.seen_back += (uint64_t)n;
}

static void relay (void)
{
    if (middle.to_a < 0) {
        middle.to_a = accept4 (middle.listener, NULL, NULL, SOCK_NONBLOCK);
        if (middle.to_a < 0)
            return;
        middle.to_b = unix_socket (real, false);
    }
    forward ();
    back ();
}

static void drive_until (const struct end *end, uint32_t type, int count)
{
    int64_t until = now_ms () + LIMIT_MS;

    while (count_of (end, type) < count) {
        CHECK (now_ms () < until);
        relay ();
        end_take (a);
        end_take (b);
    }
}

static ptl_handle_md_t md, get;
static ptl_pt_index_t place;
static const ptl_process_t through
    = { .phys = { TABLE_NID, PTL_PID_ANY } };

static void open_ends (uint8_t of_a, uint8_t of_b)
{
    struct ptlx_config config = {
        .listen_pid = PTLX_NO_LISTEN,
        .partition_key = test_key,
        .integrity = of_a,
    };

    memset (&middle, 0, sizeof (middle));
    middle.to_a = middle.to_b = -1;
    middle.flip_at = middle.flip_back = -1;
    middle.listener = unix_socket (between, true);
    end_open_with (a, &config, 64);
    config.integrity = of_b;
    config.unix_path = real;
    config.listen_pid = 0;
    config.listen_nid = LOOPBACK;
    end_open_with (b, &config, 64);
    CHECK (PtlxSetAddress (a->ni, TABLE_NID, between) == PTL_OK);
    place = open_table (b, 0);
    open_entry (b, place, target, LARGE, PTL_ME_OP_GET, PTL_CT_NONE);
    md = bind_memory (a, source, LARGE, 0, PTL_CT_NONE);
    get = bind_memory (a, old, LARGE, 0, PTL_CT_NONE);
    memset (target, 0, LARGE);
}

static void put (uint64_t length)
{
    CHECK (PtlPut (md, 0, length, PTL_ACK_REQ, through, place, 0, 0, NULL, 0)
           == PTL_OK);
}

static void close_ends (void)
{
    CHECK (PtlxNIFini (a->ni, 0) == PTL_OK);
    CHECK (PtlxNIFini (b->ni, 0) == PTL_OK);
    PtlFini ();
    PtlFini ();
    free (a->log);
    free (b->log);
    close (middle.to_a);
    close (middle.to_b);
    close (middle.listener);
}

/* The target has cut somebody off; what it had taken before is whole. */
static void is_noticed (int puts)
{
    drive_until (b, PTLX_EVENT_PEER_LOST, 1);
    CHECK (event_of (b, PTLX_EVENT_PEER_LOST, 0)->reason
           == PTLX_LOSS_MISBEHAVED);
    for (int i = 0; i < b->n; i++)
        if (b->log[i].type == PTL_EVENT_PUT && i >= puts)
            CHECK (b->log[i].ni_fail == PTL_NI_UNDELIVERABLE);
    for (int i = 8; i < 4096; i++)
        CHECK (target[i] == 0);
}

static void is_refused (void)
{
    drive_until (a, PTL_EVENT_ACK, 1);
    CHECK (event_of (a, PTL_EVENT_ACK, 0)->ni_fail == PTL_NI_UNDELIVERABLE);
    CHECK (count_of (b, PTL_EVENT_PUT) == 0);
    close_ends ();
}

static void unchanged (uint8_t of_a, uint8_t of_b, uint64_t frame_bytes)
{
    static const uint64_t lengths[] = { 8, 0, 1, 4096, 4097, LARGE };

    open_ends (of_a, of_b);
    for (int i = 0; i < 6; i++) {
        put (lengths[i]);
        drive_until (a, PTL_EVENT_ACK, i + 1);
        CHECK (event_of (a, PTL_EVENT_ACK, i)->ni_fail == PTL_NI_OK);
        CHECK (memcmp (target, source, lengths[i]) == 0);
        if (i == 0)
            CHECK (middle.seen == SHAKE_BYTES + frame_bytes);
        CHECK (PtlGet (get, 0, lengths[i], through, place, 0, 0, NULL)
               == PTL_OK);
        drive_until (a, PTL_EVENT_REPLY, 2 * i + 1);
        CHECK (memcmp (old, source, lengths[i]) == 0);
        CHECK (PtlFetchAtomic (get, 0, md, 0, lengths[i] % 60000, through,
                               place, 0, 0, NULL, 0, PTL_BAND, PTL_UINT8_T)
               == PTL_OK);
        drive_until (a, PTL_EVENT_REPLY, 2 * i + 2);
        CHECK (memcmp (old, source, lengths[i] % 60000) == 0);
    }
    close_ends ();
}

int main (void)
{
    char directory[] = "/tmp/yod-seal-XXXXXX";

    CHECK (mkdtemp (directory));
    snprintf (real, sizeof (real), "%s/real", directory);
    snprintf (between, sizeof (between), "%s/between", directory);
    for (unsigned i = 0; i < LARGE; i++)
        source[i] = (uint8_t)(i * 31 + 7);
    unchanged (2, 2, FRAME_BYTES);
    unchanged (1, 2, FRAME_BYTES);
    unchanged (1, 0, PTL_HEADER_BYTES + 8);
    unchanged (0, 1, PTL_HEADER_BYTES + 8);
    for (int bit = 0; bit < 8 * (int)FRAME_BYTES; bit += 3) {
        open_ends (1, 1);
        middle.flip_at = 8 * (int)SHAKE_BYTES + bit;
        put (8);
        is_noticed (0);
        close_ends ();
    }
    open_ends (2, 2);
    middle.repeats = true;
    put (8);
    is_noticed (1);
    CHECK (b->log[0].type == PTL_EVENT_PUT && b->log[0].ni_fail == PTL_NI_OK);
    close_ends ();
    open_ends (2, 2);
    middle.drops = true;
    put (8);
    while (middle.drops)
        drive_until (a, PTL_EVENT_SEND, 1), relay ();
    put (8);
    is_noticed (0);
    close_ends ();
    for (int bit = 0; bit < 8 * 96; bit += 5) { /* the ack */
        open_ends (2, 2);
        middle.flip_back = 8 * (PTL_M2_BYTES + PTL_M4_BYTES) + bit % (80 * 8);
        put (8);
        drive_until (a, PTLX_EVENT_PEER_LOST, 1);
        CHECK (event_of (a, PTL_EVENT_ACK, 0)->ni_fail
               == PTL_NI_UNDELIVERABLE);
        close_ends ();
    }
    open_ends (1, 1); /* the offer, taken back in m1, then in m2 */
    middle.flip_at = 8 * 56;
    put (8);
    is_refused ();
    open_ends (1, 1);
    middle.flip_back = 8 * 56;
    put (8);
    is_refused ();
    open_ends (2, 0);
    put (8);
    is_refused ();
    open_ends (0, 2);
    put (8);
    is_refused ();
    unlink (between);
    CHECK (rmdir (directory) == 0);
    return 0;
}
