/* Send and receive as MPI has them: eager messages into overflow lists (3.12),
 * large ones by get, any source, truncation, probes by PtlMESearch.
 *
 * kinds: matching
 */
#include "world.h"

#define EAGER 2048
#define N_TAGS 6
#define BUFFERS 3
#define BUFFER (64 * 1024)
#define ANY (-1)

enum { PT_MESSAGE = 10, PT_LARGE = 11 };

/* Match bits: source, tag. Header data: bytes, and the number of the get. */
#define BITS(source, tag)                                               \
    ((ptl_match_bits_t)(uint32_t)(source) << 32 | (uint32_t)(tag))
#define HEADER(number, length) ((uint64_t)(number) << 40 | (length))

struct request {
    bool is_done, is_found;
    unsigned char *start;
    size_t room, length;
    int source, tag;
};

static ptl_handle_ni_t ni;
static ptl_process_t *ids;
static ptl_handle_eq_t target_eq, own_eq;
static ptl_handle_md_t all_md;
static unsigned char *overflow[BUFFERS];
static uint32_t n_large;
static int n_unexpected, n_freed;

static void post_overflow (size_t i)
{
    ptl_me_t me = entry_of (overflow[i], BUFFER,
                            PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL
                                | PTL_ME_EVENT_LINK_DISABLE
                                | PTL_ME_EVENT_COMM_DISABLE,
                            PTL_CT_NONE);
    ptl_handle_me_t handle;

    me.min_free = EAGER;
    OK (PtlMEAppend (ni, PT_MESSAGE, &me, PTL_OVERFLOW_LIST, &overflow[i],
                     &handle));
}

static void fetch (struct request *request, const ptl_event_t *event)
{
    ptl_process_t from = ids[request->source];

    OK (PtlGet (all_md, (uintptr_t)request->start, request->length, from,
                PT_LARGE, event->hdr_data >> 40, 0, request));
}

static void arrived (struct request *request, const ptl_event_t *event)
{
    size_t sent = event->hdr_data & ((UINT64_C (1) << 40) - 1);

    CHECK (event->ni_fail_type == PTL_NI_OK);
    request->source = (int)(event->match_bits >> 32);
    request->tag = (int)(uint32_t)event->match_bits;
    if (IS_LOGICAL)
        CHECK (event->initiator.rank == (ptl_rank_t)request->source);
    else
        CHECK (event->initiator.phys.pid == ids[request->source].phys.pid);
    request->length = sent < request->room ? sent : request->room;
    if (sent > EAGER)
        fetch (request, event);
    else {
        CHECK (event->rlength == sent);
        if (event->type == PTL_EVENT_PUT_OVERFLOW) {
            n_unexpected++;
            CHECK (event->mlength == sent);
            memcpy (request->start, event->start, request->length);
        } else
            CHECK (event->mlength == request->length);
        request->is_done = true;
    }
}

static void progress (void)
{
    ptl_handle_eq_t both[2] = { target_eq, own_eq };
    ptl_event_t event;
    unsigned int which;
    int code = PtlEQPoll (both, 2, 5000, &event, &which);

    CHECK (code == PTL_OK && which < 2);
    switch (event.type) {
    case PTL_EVENT_PUT:
    case PTL_EVENT_PUT_OVERFLOW:
        CHECK (which == 0);
        arrived (event.user_ptr, &event);
        break;
    case PTL_EVENT_SEARCH: {
        struct request *request = event.user_ptr;

        request->is_done = true;
        request->is_found = event.ni_fail_type == PTL_NI_OK;
        if (request->is_found) {
            request->source = (int)(event.match_bits >> 32);
            request->length = event.hdr_data & ((UINT64_C (1) << 40) - 1);
        } else
            CHECK (event.ni_fail_type == PTL_NI_NO_MATCH);
        break;
    }
    case PTL_EVENT_GET: /* our large message has been fetched */
    case PTL_EVENT_ACK:
    case PTL_EVENT_REPLY:
        CHECK (event.ni_fail_type == PTL_NI_OK);
        ((struct request *)event.user_ptr)->is_done = true;
        break;
    case PTL_EVENT_AUTO_FREE: /* no header of it is left */
        n_freed++;
        post_overflow ((size_t)((unsigned char **)event.user_ptr - overflow));
        break;
    case PTL_EVENT_AUTO_UNLINK:
        break;
    default:
        CHECK (!"an event that nothing asks for");
    }
}

static void finish (struct request *request)
{
    while (!request->is_done)
        progress ();
}

static void send (struct request *request, const void *start, size_t length,
                  int to, int tag)
{
    size_t at = (uintptr_t)start;

    memset (request, 0, sizeof (*request));
    if (length > EAGER) {
        ptl_me_t me = entry_of ((void *)(uintptr_t)start, length,
                                PTL_ME_OP_GET | PTL_ME_USE_ONCE
                                    | PTL_ME_EVENT_LINK_DISABLE
                                    | PTL_ME_EVENT_UNLINK_DISABLE,
                                PTL_CT_NONE);
        ptl_handle_me_t handle;

        me.match_id = ids[to];
        me.match_bits = ++n_large;
        me.ignore_bits = 0;
        OK (PtlMEAppend (ni, PT_LARGE, &me, PTL_PRIORITY_LIST, request,
                         &handle));
        OK (PtlPut (all_md, at, 0, PTL_NO_ACK_REQ, ids[to], PT_MESSAGE,
                    BITS (rank, tag), 0, NULL, HEADER (n_large, length)));
    } else
        OK (PtlPut (all_md, at, length, PTL_ACK_REQ, ids[to], PT_MESSAGE,
                    BITS (rank, tag), 0, request, HEADER (0, length)));
}

static ptl_me_t wanted (struct request *request, void *start, size_t room,
                        int source, int tag)
{
    ptl_me_t me = entry_of (start, room,
                            PTL_ME_OP_PUT | PTL_ME_USE_ONCE
                                | PTL_ME_EVENT_LINK_DISABLE
                                | PTL_ME_EVENT_UNLINK_DISABLE,
                            PTL_CT_NONE);

    memset (request, 0, sizeof (*request));
    request->start = start;
    request->room = room;
    if (source != ANY)
        me.match_id = ids[source];
    me.match_bits = BITS (source == ANY ? 0 : source, tag);
    me.ignore_bits = source == ANY ? BITS (0xffffffffu, 0) : 0;
    return me;
}

static void receive (struct request *request, void *start, size_t room,
                     int source, int tag)
{
    ptl_me_t me = wanted (request, start, room, source, tag);
    ptl_handle_me_t handle;

    OK (PtlMEAppend (ni, PT_MESSAGE, &me, PTL_PRIORITY_LIST, request,
                     &handle));
}

static bool probe (struct request *request, int source, int tag)
{
    ptl_me_t me = wanted (request, NULL, 0, source, tag);

    OK (PtlMESearch (ni, PT_MESSAGE, &me, PTL_SEARCH_ONLY, request));
    finish (request);
    return request->is_found;
}

/* Sizes of a tag: small, at the border, large. */
static size_t length_of (int tag)
{
    static const size_t lengths[N_TAGS]
        = { 0, 1, 100, EAGER, EAGER + 1, 300000 };

    return lengths[tag];
}

/* All messages of a round from and to each; late are received after they came. */
static void exchange (bool is_late)
{
    struct request *sends = calloc ((size_t)size * N_TAGS, sizeof (*sends));
    struct request *receives = calloc ((size_t)size * N_TAGS,
                                       sizeof (*receives));
    unsigned char **out = calloc (N_TAGS, sizeof (*out));

    CHECK (sends && receives && out);
    if (!is_late)
        for (int i = 0; i < size * N_TAGS; i++) {
            size_t room = length_of (i % N_TAGS);

            receive (&receives[i], malloc (room + 1), room, i / N_TAGS,
                     i % N_TAGS);
        }
    barrier ();
    for (int tag = 0; tag < N_TAGS; tag++) {
        out[tag] = malloc (length_of (tag) + 1);
        fill (out[tag], length_of (tag), (uint64_t)(rank * 10 + tag));
        for (int i = 1; i <= size; i++) {
            int to = (rank + i) % size;

            send (&sends[to * N_TAGS + tag], out[tag], length_of (tag), to,
                  tag);
        }
    }
    if (is_late) { /* the last tag of the last rank is there: the others too */
        struct request found;

        for (int from = 0; from < size; from++)
            while (!probe (&found, from, N_TAGS - 1))
                ;
        CHECK (found.length == length_of (N_TAGS - 1));
        CHECK (probe (&found, ANY, 2) && found.length == length_of (2));
        CHECK (!probe (&found, ANY, N_TAGS));
        for (int i = size * N_TAGS; i-- > 0;) {
            size_t room = length_of (i % N_TAGS);

            receive (&receives[i], malloc (room + 1), room,
                     i % 2 ? ANY : i / N_TAGS, i % N_TAGS);
            finish (&receives[i]);
        }
    }
    for (int i = 0; i < size * N_TAGS; i++) {
        struct request *request = &receives[i];

        finish (request);
        CHECK (request->tag == i % N_TAGS);
        CHECK (request->length == length_of (i % N_TAGS));
        CHECK (is_filled (request->start, request->length,
                          (uint64_t)(request->source * 10 + request->tag)));
        free (request->start);
    }
    for (int i = 0; i < size * N_TAGS; i++)
        finish (&sends[i]);
    for (int tag = 0; tag < N_TAGS; tag++)
        free (out[tag]);
    free (out);
    free (sends);
    free (receives);
}

/* Messages of one tag are received in the order in which they were sent. */
static void in_order (void)
{
    enum { N = 40 };
    static uint32_t out[N], in[N];
    static struct request sends[N], receives[N];
    int to = (rank + 1) % size, from = (rank + size - 1) % size;

    for (uint32_t i = 0; i < N; i++) {
        out[i] = i;
        send (&sends[i], &out[i], 4, to, 77);
        if (i == N / 2)
            barrier ();
    }
    for (int i = 0; i < N; i++)
        receive (&receives[i], &in[i], 2, from, 77); /* cut to two bytes */
    for (uint32_t i = 0; i < N; i++) {
        finish (&receives[i]);
        finish (&sends[i]);
        CHECK (receives[i].length == 2 && in[i] == i);
    }
}

int main (void)
{
    ptl_pt_index_t pt;

    world_open ();
    ids = world_interface (NI_OPTIONS, NULL, NULL, &ni);
    OK (PtlEQAlloc (ni, 4096, &target_eq));
    OK (PtlEQAlloc (ni, 4096, &own_eq));
    OK (PtlPTAlloc (ni, PTL_PT_FLOWCTRL, target_eq, PT_MESSAGE, &pt));
    OK (PtlPTAlloc (ni, 0, target_eq, PT_LARGE, &pt));
    all_md = bind_md (ni, NULL, PTL_SIZE_MAX, PTL_MD_EVENT_SEND_DISABLE,
                      own_eq, PTL_CT_NONE);
    for (size_t i = 0; i < BUFFERS; i++) {
        overflow[i] = malloc (BUFFER);
        post_overflow (i);
    }
    barrier ();
    exchange (false);
    for (int i = 0; i < 4; i++) {
        exchange (true);
        exchange (false);
    }
    in_order ();
    CHECK (n_unexpected > 0);
    barrier ();
    return world_close ();
}
