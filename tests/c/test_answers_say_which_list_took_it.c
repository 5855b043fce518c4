/* ACK and REPLY (spec 3.13.3): ptl_list says which list at the target had the entry
 * that took the operation, so that an initiator knows whether its message was
 * expected. Small and large, over a connection and to oneself.
 * kinds: all */
#include "kinds.h"

#define BYTES (600u * 1024)
#define BOTH (PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_LINK_DISABLE)

static struct end ends[2], *b = &ends[1];
static uint8_t theirs[BYTES], ours[BYTES];
static ptl_handle_md_t md;
static ptl_handle_eq_t queue;
static ptl_pt_index_t table;

/* The answer to what has just begun. */
static void answers (struct end *from, ptl_event_kind_t type, ptl_list_t list,
                     ptl_ni_fail_t fail)
{
    int before = count_of (from, type);
    const struct ptlx_event *event;

    pump_until (ends, 2, from, type, before + 1);
    event = event_of (from, type, before);
    CHECK (event->ni_fail == fail && event->list == list);
}

static void move (struct end *from, size_t length, ptl_list_t list,
                  ptl_ni_fail_t fail)
{
    CHECK (PtlPut (md, 0, length, PTL_ACK_REQ, b->id, table, 0, 0, NULL, 5)
           == PTL_OK);
    answers (from, PTL_EVENT_ACK, list, fail);
    CHECK (PtlGet (md, 0, length, b->id, table, 0, 0, NULL) == PTL_OK);
    answers (from, PTL_EVENT_REPLY, list, fail);
}

static void check (struct end *from, ptl_list_t list, ptl_ni_fail_t fail)
{
    move (from, 0, list, fail);
    move (from, 8, list, fail);
    move (from, 64 * 1024, list, fail);
    move (from, BYTES, list, fail);
    CHECK (PtlAtomic (md, 0, 8, PTL_ACK_REQ, b->id, table, 0, 0, NULL, 0,
                      PTL_SUM, PTL_INT64_T)
           == PTL_OK);
    answers (from, PTL_EVENT_ACK, list, fail);
    CHECK (PtlFetchAtomic (md, 0, md, 0, 8, b->id, table, 0, 0, NULL, 0,
                           PTL_SUM, PTL_INT64_T)
           == PTL_OK);
    answers (from, PTL_EVENT_REPLY, list, fail);
    CHECK (PtlFetchAtomic (md, 0, md, 4096, 4096, b->id, table, 0, 0, NULL, 0,
                           PTL_SUM, PTL_INT64_T)
           == PTL_OK);
    answers (from, PTL_EVENT_REPLY, list, fail);
}

static void check_list (struct end *from, ptl_list_t list)
{
    entry_t entry = entry_of (theirs, BYTES,
                              BOTH | PTL_LE_UNEXPECTED_HDR_DISABLE);
    ptl_handle_me_t handle = put_entry (b, table, &entry, list, NULL);
    ptl_event_t event;

    check (from, list, PTL_NI_OK);
    while (PtlEQGet (queue, &event) == PTL_OK)
        CHECK (event.ptl_list == list);
    CHECK (entry_unlink (handle) == PTL_OK);
}

int main (void)
{
    kinds_open (ends, 2, 64, NULL);
    table = kinds_table (b, 0, 64, &queue);
    for (int i = 0; i < 2; i++) {
        md = bind_memory (&ends[i], ours, sizeof (ours), 0, PTL_CT_NONE);
        check_list (&ends[i], PTL_OVERFLOW_LIST);
        check_list (&ends[i], PTL_PRIORITY_LIST);
        check (&ends[i], PTL_PRIORITY_LIST, PTL_NI_DROPPED);
    }
    kinds_close (ends, 2);
    return 0;
}
