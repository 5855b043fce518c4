/* Flow control (2.7, 3.7.1): everybody overruns rank 0, whose table entry is
 * disabled, cleaned up and enabled again. What was refused is sent again; all
 * arrives once.
 *
 * kinds: all
 */
#include "world.h"

#define EACH 150
#define WINDOW 30
#define SLOTS 8
#define QUEUE 12
#define WORDS 20

static ptl_handle_ni_t ni;
static ptl_process_t *ids;
static uint64_t slots[SLOTS][WORDS];

static void post (ptl_pt_index_t pt, size_t i)
{
    entry_t entry = entry_of (slots[i], sizeof (slots[i]),
                              PTL_LE_OP_PUT | PTL_LE_USE_ONCE
                                  | PTL_LE_EVENT_LINK_DISABLE
                                  | PTL_LE_EVENT_UNLINK_DISABLE,
                              PTL_CT_NONE);
    ptl_handle_me_t handle;

    OK (entry_append (ni, pt, &entry, PTL_PRIORITY_LIST, &slots[i], &handle));
}

static void take_all (void)
{
    char *is_there = calloc ((size_t)size, EACH);
    int missing = (size - 1) * EACH, n_disabled = 0;
    ptl_pt_index_t pt;
    ptl_handle_eq_t eq;

    CHECK (is_there);
    OK (PtlEQAlloc (ni, QUEUE, &eq));
    OK (PtlPTAlloc (ni, PTL_PT_FLOWCTRL, eq, 7, &pt));
    for (size_t i = 0; i < SLOTS; i++)
        post (pt, i);
    barrier ();
    while (missing > 0) {
        ptl_event_t event;
        uint64_t *slot;

        OK (PtlEQWait (eq, &event));
        CHECK (event.pt_index == pt);
        if (event.type == PTL_EVENT_PT_DISABLED) {
            n_disabled++;
            OK (PtlPTEnable (ni, pt));
            continue;
        }
        CHECK (event.type == PTL_EVENT_PUT
               && event.ni_fail_type == PTL_NI_OK);
        slot = event.user_ptr;
        CHECK (event.start == slot && event.mlength == sizeof (slots[0]));
        CHECK (slot[0] < (uint64_t)size && slot[1] < EACH);
        CHECK (slot[0] * EACH + slot[1] == event.hdr_data);
        for (int i = 2; i < WORDS; i++)
            CHECK (slot[i] == event.hdr_data * 7 + (uint64_t)i);
        CHECK (!is_there[event.hdr_data]);
        is_there[event.hdr_data] = 1;
        missing--;
        post (pt, (size_t)(slot - slots[0]) / WORDS);
    }
    printf ("disabled: %s\n", n_disabled ? "yes" : "no");
}

static void send_all (void)
{
    static uint64_t words[EACH][WORDS];
    bool is_there[EACH] = { 0 };
    int missing = EACH, refused = 0;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;

    OK (PtlEQAlloc (ni, 2 * WINDOW + 2, &eq));
    md = bind_md (ni, words, sizeof (words), PTL_MD_EVENT_SEND_DISABLE, eq,
                  PTL_CT_NONE);
    for (uint64_t i = 0; i < EACH; i++) {
        words[i][0] = (uint64_t)rank;
        words[i][1] = i;
        for (uint64_t j = 2; j < WORDS; j++)
            words[i][j] = ((uint64_t)rank * EACH + i) * 7 + j;
    }
    barrier ();
    while (missing > 0) {
        int sent = 0;

        for (int i = 0; i < EACH && sent < WINDOW; i++)
            if (!is_there[i]) {
                OK (PtlPut (md, (size_t)i * sizeof (words[0]),
                            sizeof (words[0]), PTL_ACK_REQ, ids[0], 7, 0, 0,
                            (void *)&is_there[i],
                            (uint64_t)(rank * EACH + i)));
                sent++;
            }
        for (; sent > 0; sent--) {
            ptl_event_t event;

            OK (PtlEQWait (eq, &event));
            CHECK (event.type == PTL_EVENT_ACK);
            if (event.ni_fail_type == PTL_NI_OK) {
                *(bool *)event.user_ptr = true;
                missing--;
            } else {
                CHECK (event.ni_fail_type == PTL_NI_PT_DISABLED);
                refused++;
            }
        }
        if (refused)
            usleep (500); /* as the specification asks: do not hammer */
    }
}

int main (void)
{
    world_open ();
    ids = world_interface (NI_OPTIONS, NULL, NULL, &ni);
    if (rank == 0)
        take_all ();
    else
        send_all ();
    return world_close ();
}
