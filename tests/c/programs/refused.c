/* What a target refuses, and how its initiator and its registers tell (3.6.4,
 * 3.13.3): another user, an operation that the entry does not allow, no entry,
 * no table entry; more than fits is cut.
 *
 * kinds: all
 */
#include "world.h"

#define NO_TABLE 60

enum { PT_OWN, PT_OTHER, PT_READ, PT_WRITE, PT_EMPTY };

static ptl_handle_ni_t ni;
static ptl_process_t to;
static ptl_handle_eq_t eq;
static ptl_handle_md_t md;
static uint64_t cells[4], words[4] = { 1, 2, 3, 4 }, one = 1, got;

static void expose_to (ptl_pt_index_t index, ptl_uid_t uid,
                       unsigned int options)
{
    entry_t entry = entry_of (cells, sizeof (cells), options, PTL_CT_NONE);
    ptl_handle_me_t handle;
    ptl_pt_index_t given;

    entry.uid = uid;
    OK (PtlPTAlloc (ni, 0, PTL_EQ_NONE, index, &given));
    OK (entry_append (ni, index, &entry, PTL_PRIORITY_LIST, NULL, &handle));
}

static ptl_event_t next (ptl_event_kind_t type)
{
    ptl_event_t event;

    OK (PtlEQWait (eq, &event));
    CHECK (event.type == type);
    return event;
}

static ptl_event_t put (ptl_pt_index_t index, ptl_size_t at)
{
    OK (PtlPut (md, 0, sizeof (words), PTL_ACK_REQ, to, index, 0, at, NULL,
                0));
    return next (PTL_EVENT_ACK);
}

static ptl_event_t get (ptl_pt_index_t index)
{
    OK (PtlGet (md, 0, sizeof (words), to, index, 0, 0, NULL));
    return next (PTL_EVENT_REPLY);
}

static ptl_ni_fail_t fetch (ptl_pt_index_t index)
{
    ptl_handle_md_t from
        = bind_md (ni, &one, 8, 0, PTL_EQ_NONE, PTL_CT_NONE);
    ptl_handle_md_t into = bind_md (ni, &got, 8, 0, eq, PTL_CT_NONE);
    ptl_event_t event;

    OK (PtlFetchAtomic (into, 0, from, 0, 8, to, index, 0, 0, NULL, 0,
                        PTL_SUM, PTL_UINT64_T));
    event = next (PTL_EVENT_REPLY);
    OK (PtlMDRelease (from));
    OK (PtlMDRelease (into));
    return event.ni_fail_type;
}

static int value_of (ptl_sr_index_t index)
{
    int value;

    OK (PtlNIStatus (ni, index, &value));
    return value;
}

int main (void)
{
    unsigned int both = PTL_LE_OP_PUT | PTL_LE_OP_GET;
    ptl_process_t *ids;
    ptl_pt_index_t given;
    ptl_uid_t uid;

    world_open ();
    ids = world_interface (NI_OPTIONS, NULL, NULL, &ni);
    to = ids[(rank + 1) % size];
    OK (PtlEQAlloc (ni, 16, &eq));
    OK (PtlGetUid (ni, &uid));
    expose_to (PT_OWN, uid, both);
    expose_to (PT_OTHER, uid + 1, both);
    expose_to (PT_READ, PTL_UID_ANY, PTL_LE_OP_GET);
    expose_to (PT_WRITE, PTL_UID_ANY, PTL_LE_OP_PUT);
    OK (PtlPTAlloc (ni, 0, PTL_EQ_NONE, PT_EMPTY, &given));
    md = bind_md (ni, words, sizeof (words), PTL_MD_EVENT_SEND_DISABLE, eq,
                  PTL_CT_NONE);
    barrier ();
    CHECK (put (PT_OWN, 0).ni_fail_type == PTL_NI_OK);
    CHECK (get (PT_OWN).ni_fail_type == PTL_NI_OK && words[3] == 4);
    CHECK (put (PT_OWN, 24).mlength == 8); /* cut */
    CHECK (put (PT_OWN, 32).mlength == 0);
    CHECK (fetch (PT_OWN) == PTL_NI_OK);
    CHECK (put (PT_OTHER, 0).ni_fail_type == PTL_NI_PERM_VIOLATION);
    CHECK (get (PT_OTHER).ni_fail_type == PTL_NI_PERM_VIOLATION);
    CHECK (put (PT_READ, 0).ni_fail_type == PTL_NI_OP_VIOLATION);
    CHECK (get (PT_READ).ni_fail_type == PTL_NI_OK);
    CHECK (fetch (PT_READ) == PTL_NI_OP_VIOLATION);
    CHECK (put (PT_WRITE, 0).ni_fail_type == PTL_NI_OK);
    CHECK (get (PT_WRITE).ni_fail_type == PTL_NI_OP_VIOLATION);
    CHECK (fetch (PT_WRITE) == PTL_NI_OP_VIOLATION);
    CHECK (put (PT_EMPTY, 0).ni_fail_type == PTL_NI_DROPPED);
    CHECK (get (PT_EMPTY).ni_fail_type == PTL_NI_DROPPED);
    CHECK (put (NO_TABLE, 0).ni_fail_type == PTL_NI_DROPPED);
    barrier ();
    CHECK (value_of (PTL_SR_PERMISSION_VIOLATIONS) == 2);
    CHECK (value_of (PTL_SR_OPERATION_VIOLATIONS) == 4);
    CHECK (value_of (PTL_SR_DROP_COUNT) == 3);
    return world_close ();
}
