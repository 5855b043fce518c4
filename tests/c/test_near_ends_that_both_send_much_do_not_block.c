/* Two processes fill each other's ring at once, many times over, and each
 * gets all that was sent to it. */
#include "near_ends.h"
#include "ring_pair.h"

#define BYTES (1u << 20)
#define PUTS 64

static uint8_t source[BYTES], target[PUTS][BYTES];

static void both (struct other *other)
{
    struct end end;
    ptl_process_t peer;
    ptl_handle_md_t md;
    ptl_pt_index_t index;
    bool was_shared = false;

    for (size_t k = 0; k < BYTES; k++)
        source[k] = byte_at (k);
    near_open (&end, 1024);
    index = open_table (&end, 0);
    open_entry (&end, index, target, sizeof (target), 0, PTL_CT_NONE);
    other_tell (other, &end.id, sizeof (end.id));
    other_hear (other, &peer, sizeof (peer));
    md = bind_memory (&end, source, BYTES, PTL_MD_EVENT_SEND_DISABLE,
                      PTL_CT_NONE);
    for (size_t i = 0; i < PUTS; i++)
        CHECK (PtlPut (md, 0, BYTES, PTL_ACK_REQ, peer, index, 0, i * BYTES,
                       NULL, 0)
               == PTL_OK);
    /* The other may leave as soon as it has all: look while there is more. */
    for (int k = 1; k <= PUTS; k++) {
        pump_until (&end, 1, &end, PTL_EVENT_ACK, k);
        was_shared = was_shared || is_shared (&end);
    }
    pump_until (&end, 1, &end, PTL_EVENT_PUT, PUTS);
    for (int i = 0; i < PUTS; i++)
        CHECK (memcmp (target[i], source, BYTES) == 0);
    CHECK (was_shared);
    end_close (&end);
}

int main (void)
{
    struct other other = other_start (both);

    both (&other);
    other_end (&other);
    return 0;
}
