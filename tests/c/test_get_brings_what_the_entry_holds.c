/* PtlGet (3.15.3): the entry's bytes are copied into the descriptor, REPLY
 * says how many and from where; the target's event is GET. PtlMDRelease
 * (3.10.3) is refused until then. Lengths from none to several fragments. */
#include "harness.h"

#define LARGE (3u << 20)

int main (void)
{
    static const uint64_t lengths[] = { 0, 1, 8, 1024, 1025, 4096, 65536,
                                        262144, 262145, LARGE - 100 };
    struct end ends[2], *a = &ends[0], *b = &ends[1];
    uint8_t *source = malloc (LARGE), *target = calloc (1, LARGE);
    const struct ptlx_event *event;
    ptl_ct_event_t value;
    ptl_handle_md_t md;
    ptl_handle_ct_t ct;
    ptl_pt_index_t index;
    int n = 0;

    for (unsigned i = 0; i < LARGE; i++)
        source[i] = (uint8_t)(i * 7 + i / 251);
    end_open (a, 64);
    end_open (b, 64);
    index = open_table (b, 0);
    open_entry (b, index, source, LARGE, PTL_ME_OP_GET, PTL_CT_NONE);
    CHECK (PtlCTAlloc (a->ni, &ct) == PTL_OK);
    md = bind_memory (a, target, LARGE, PTL_MD_EVENT_CT_REPLY, ct);
    for (unsigned i = 0; i < sizeof (lengths) / sizeof (*lengths); i++) {
        memset (target, 0xee, LARGE);
        CHECK (PtlGet (md, 50, lengths[i], b->id, index, 5, 10, &n) == PTL_OK);
        if (lengths[i] > 1)
            CHECK (PtlMDRelease (md) == PTL_IN_USE);
        pump_until (ends, 2, a, PTL_EVENT_REPLY, ++n);
        CHECK (memcmp (target + 50, source + 10, lengths[i]) == 0);
        CHECK (target[49] == 0xee && target[50 + lengths[i]] == 0xee);
        event = event_of (a, PTL_EVENT_REPLY, n - 1);
        CHECK (event->ni_fail == PTL_NI_OK && event->mlength == lengths[i]);
        CHECK (event->remote_offset == 10 && event->user_ptr == &n);
        pump_until (ends, 2, b, PTL_EVENT_GET, n);
        event = event_of (b, PTL_EVENT_GET, n - 1);
        CHECK (event->ni_fail == PTL_NI_OK && event->mlength == lengths[i]);
        CHECK (event->rlength == lengths[i] && event->match_bits == 5);
        CHECK ((uint8_t *)event->start == source + 10);
        CHECK (PtlCTGet (ct, &value) == PTL_OK);
        CHECK (value.success == (uint64_t)n && value.failure == 0);
    }
    CHECK (count_of (a, PTL_EVENT_SEND) == 0);
    /* Beyond the entry's end: truncated. */
    CHECK (PtlGet (md, 0, 100, b->id, index, 5, LARGE - 30, NULL) == PTL_OK);
    pump_until (ends, 2, a, PTL_EVENT_REPLY, n + 1);
    event = event_of (a, PTL_EVENT_REPLY, n);
    CHECK (event->mlength == 30 && event->remote_offset == LARGE - 30);
    CHECK (memcmp (target, source + LARGE - 30, 30) == 0);
    CHECK (PtlMDRelease (md) == PTL_OK);
    end_close (a);
    end_close (b);
    free (source);
    free (target);
    return 0;
}
