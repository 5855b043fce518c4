/* fuzz_shake.c - everything before proof, as listener and as dialler.
 *
 * The end holds one of several keys, listens at a path, and dials a path at
 * which the input listens. Steps send messages that are right but for what the
 * input changes, or any bytes, on several connections at once. Nobody who does
 * not hold a key gets in; a neighbour does.
 */
#include <sys/stat.h>

#include "fuzz.h"

#define LINES 4
#define MOST_BYTES (2u << 20)
#define MOST_STEPS 100
#define VICTIM_NID 2

/* A connection of the attacker; it holds no key. */
struct line {
    int fd; /* -1: none */
    uint8_t m1[PTL_M1_BYTES], m2[PTL_M2_BYTES], m3[PTL_M3_BYTES];
    bool has_spoken;
    uint8_t kind; /* of key, as the first m1 said; 0: that was other bytes */
};

struct world {
    struct end end, neighbour;
    struct line lines[LINES], *now;
    struct input in;
    ptl_handle_md_t md;
};

static struct sockaddr_un end_path, victim_path;
static int victim_fd;
static uint8_t source[100];

static void set_key (const struct end *end, uint32_t kind)
{
    struct ptlx_key key = {
        .kind = kind,
        .uid = 1000,
        .job_id = kind == PTLX_KEY_JOB ? 9 : 0,
        .expires = kind == PTLX_KEY_JOB ? INT64_MAX : 0,
    };
    ptl_process_t all = { .phys = { PTL_NID_ANY, PTL_PID_ANY } };

    ptl_auth_derive (partition_key, &key);
    HOLDS (PtlxUseKey (end->ni, all, &key) == PTL_OK);
}

/* Which key it holds, the first byte says; the neighbour has one to match. */
static void open_ends (struct world *w)
{
    uint8_t how = take8 (&w->in);
    struct ptlx_config config = {
        .listen_pid = PTLX_NO_LISTEN,
        .unix_path = end_path.sun_path,
        .partition_key = how % 4 < 2 ? partition_key : NULL,
        .max_unproven = 8,
    };
    ptl_md_t md = { .start = source, .length = sizeof (source),
                    .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE };

    end_open (&w->end, &config);
    config.unix_path = NULL;
    if (how % 4 == 1) /* a user comes to who holds the partition's key */
        config.partition_key = NULL;
    end_open (&w->neighbour, &config);
    if (how % 4 == 1)
        set_key (&w->neighbour, PTLX_KEY_USER);
    if (how % 4 >= 2) {
        set_key (&w->end, how % 4 == 2 ? PTLX_KEY_USER : PTLX_KEY_JOB);
        set_key (&w->neighbour, how % 4 == 2 ? PTLX_KEY_USER : PTLX_KEY_JOB);
    }
    open_for_neighbour (&w->end, w->neighbour.id.phys.nid,
                        w->neighbour.id.phys.pid);
    HOLDS (PtlxSetAddress (w->neighbour.ni, 1, end_path.sun_path) == PTL_OK);
    HOLDS (PtlxSetAddress (w->end.ni, VICTIM_NID, victim_path.sun_path)
           == PTL_OK);
    md.eq_handle = w->end.eq;
    HOLDS (PtlMDBind (w->end.ni, &md, &w->md) == PTL_OK);
}

static void hang_up (struct line *line)
{
    if (line->fd >= 0)
        close (line->fd);
    memset (line, 0, sizeof (*line));
    line->fd = -1;
}

static void put_bytes (struct world *w, const void *data, size_t length)
{
    if (w->now->fd >= 0 && !give (&w->end, w->now->fd, data, length))
        hang_up (w->now);
}

/* Change bytes of a message as the input says. */
static void change (struct world *w, uint8_t *message, size_t length)
{
    for (uint8_t n = take8 (&w->in) % 8; n > 0; n--) {
        size_t at = take8 (&w->in) % length;

        message[at] = take8 (&w->in);
    }
}

/* The whole message, or a part of it. */
static void put_message (struct world *w, const uint8_t *message,
                         size_t length)
{
    uint8_t part = take8 (&w->in);

    if (part & 128) /* what follows makes another message of it */
        w->now->kind = 0;
    put_bytes (w, message, part & 128 ? part % length : length);
}

static void step_dial (struct world *w)
{
    hang_up (w->now);
    w->now->fd = dial (&end_path);
}

static void speak (struct line *line, uint8_t kind)
{
    line->kind = line->has_spoken ? line->kind : kind;
    line->has_spoken = true;
}

static void step_m1 (struct world *w)
{
    uint8_t what = take8 (&w->in);
    struct ptl_hello hello = {
        .version_min = 1,
        .version_max = 1,
        .key_kind = what % 4 + 1,
        .uid = what & 4 ? 0 : 1000,
        .nid = LOOPBACK,
        .pid = 1u << 20 | what / 8 % 4,
        .incarnation = 7,
        .intended_nid = PTL_NID_ANY,
        .intended_pid = PTL_PID_ANY,
    };

    if (hello.key_kind == PTLX_KEY_JOB) {
        hello.job_id = 9;
        hello.expires = what & 4 ? 1 : INT64_MAX;
    }
    ptl_auth_put_hello (1, &hello, w->now->m1);
    change (w, w->now->m1, PTL_M1_BYTES);
    speak (w->now, w->now->m1[8]);
    put_message (w, w->now->m1, PTL_M1_BYTES);
}

static void step_read (struct world *w)
{
    uint8_t first[8], rest[PTL_SHAKE_MAX_BYTES];
    struct line *line = w->now;
    size_t length;

    if (line->fd < 0 || !get (&w->end, line->fd, first, sizeof (first)))
        return;
    length = ptl_auth_length (first);
    HOLDS (length > 0); /* what the end says is well-formed */
    if (!get (&w->end, line->fd, rest, length - sizeof (first)))
        return;
    memcpy (first[4] == 1 ? line->m1 : line->m2, first, sizeof (first));
    if (first[4] == 1)
        memcpy (line->m1 + 8, rest, PTL_M1_BYTES - 8);
    else if (first[4] == 2)
        memcpy (line->m2 + 8, rest, PTL_M2_BYTES - 8);
    else if (first[4] == 4 && line->kind != 0)
        HOLDS (first[5] != PTL_CODE_READY || line->kind == PTLX_KEY_LOCAL);
}

/* The attacker has no key but the one that everybody has. */
static void step_m3 (struct world *w)
{
    uint8_t key[PTLX_KEY_BYTES] = { 0 };

    ptl_auth_put_m3 (key, w->now->m1, w->now->m2, w->now->m3);
    change (w, w->now->m3, PTL_M3_BYTES);
    put_message (w, w->now->m3, PTL_M3_BYTES);
}

static void step_accept (struct world *w)
{
    hang_up (w->now);
    w->now->fd = accept4 (victim_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static void step_m2 (struct world *w)
{
    uint8_t key[PTLX_KEY_BYTES] = { 0 };
    struct ptl_hello hello = {
        .version_min = 1,
        .version_max = 1,
        .version = 1,
        .key_kind = w->now->m1[8],
        .nid = LOOPBACK,
        .pid = 7000,
        .incarnation = 8,
    };

    ptl_auth_put_hello (2, &hello, w->now->m2);
    change (w, w->now->m2, PTL_HELLO_BYTES);
    ptl_auth_listener_tag (key, w->now->m1, w->now->m2,
                           w->now->m2 + PTL_HELLO_BYTES);
    put_message (w, w->now->m2, PTL_M2_BYTES);
}

static void step_m4 (struct world *w)
{
    uint8_t key[PTLX_KEY_BYTES] = { 0 }, m4[PTL_M4_BYTES];
    uint8_t session[PTLX_KEY_BYTES];

    ptl_auth_session (key, "yod.s2c", w->now->m1, w->now->m2, w->now->m3,
                      session);
    ptl_auth_put_m4 (session, take8 (&w->in), 1, 1, m4);
    change (w, m4, sizeof (m4));
    put_message (w, m4, sizeof (m4));
}

static void step_bytes (struct world *w)
{
    uint8_t bytes[255];
    size_t n = take_bytes (&w->in, bytes, take8 (&w->in));

    if (n > 0)
        speak (w->now, 0);
    put_bytes (w, bytes, n);
}

/* To the attacker's path: the end dials. */
static void step_put (struct world *w)
{
    ptl_process_t to
        = { .phys = { VICTIM_NID, take8 (&w->in) & 1 ? PTL_PID_ANY : 7000 } };

    HOLDS (PtlPut (w->md, 0, sizeof (source), PTL_ACK_REQ, to, 2, 0, 0, NULL,
                   0)
           == PTL_OK);
}

static void step_pass (struct world *w)
{
    static const int64_t ms[] = { 1, 20, 1000, 5000 };

    pass_ms (ms[take8 (&w->in) % 4]);
}

static void step (struct world *w)
{
    switch (take8 (&w->in) % 14) {
    case 0:
        step_dial (w);
        break;
    case 1:
        step_m1 (w);
        break;
    case 2:
        step_read (w);
        break;
    case 3:
        step_m3 (w);
        break;
    case 4:
        step_accept (w);
        break;
    case 5:
        step_m2 (w);
        break;
    case 6:
        step_m4 (w);
        break;
    case 7:
        step_bytes (w);
        break;
    case 8:
        step_put (w);
        break;
    case 9:
        step_pass (w);
        break;
    case 10:
        w->now = &w->lines[take8 (&w->in) % LINES];
        break;
    case 11:
        hang_up (w->now);
        break;
    case 12:
        if (w->now->fd >= 0)
            shutdown (w->now->fd, SHUT_WR);
        break;
    case 13:
        end_turn (&w->end);
        break;
    }
}

/* Those that the end has dialled and nobody has accepted. */
static void empty_backlog (void)
{
    int fd;

    while ((fd = accept (victim_fd, NULL, NULL)) >= 0)
        close (fd);
}

static void remove_victim (void)
{
    unlink (victim_path.sun_path);
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
    victim_path = path_of ("victim");
    victim_fd = listen_at (&victim_path);
    atexit (remove_victim);
    LLVMFuzzerTestOneInput (NULL, 0);
    is_warm = true;
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    struct world w = { .in = { data, size } };
    struct ptlx_counters counters;
    struct cost before;
    int steps = 0;

    warm_up ();
    forget_timers ();
    before = cost_now ();
    for (int i = 0; i < LINES; i++)
        w.lines[i].fd = -1;
    w.now = &w.lines[0];
    open_ends (&w);
    while (w.in.left > 0 && steps++ < MOST_STEPS) {
        step (&w);
        end_turn (&w.end);
        check_cost (before, MOST_BYTES);
    }
    for (int i = 0; i < LINES; i++)
        hang_up (&w.lines[i]);
    empty_backlog ();
    end_drive (&w.end);
    check_neighbour (&w.end, &w.neighbour);
    HOLDS (PtlxCounters (w.end.ni, &counters) == PTL_OK);
    HOLDS (counters.unproven == 0);
    end_close (&w.neighbour);
    end_close (&w.end);
    if (is_warm)
        check_leaks (before);
    return 0;
}
