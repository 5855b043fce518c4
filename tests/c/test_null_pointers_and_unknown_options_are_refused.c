/* All calls: PTL_ARG_INVALID for a null pointer to a result or a description, and
 * for an undefined bit or value of options, lists, search operations, status
 * registers and interfaces. Defined options are accepted, each alone and all of
 * them together.
 * kinds: all */
#include "calls.h"

#define MD_OPTIONS 0x3ffu /* bits 0 to 9 */
#define LE_OPTIONS 0xffffu
#define ME_OPTIONS (LE_OPTIONS | 0x1e0000u)
#define PT_OPTIONS 0x1fu

static ptl_handle_ni_t ni;
static struct given given;
static const ptl_handle_any_t *h = given.handles;

static void check_interfaces (void)
{
    ptl_handle_ni_t other;
    int pairs = 0;

    CHECK (PtlNIInit (0, NI_OPTIONS, PTL_PID_ANY, NULL, NULL, NULL)
           == PTL_ARG_INVALID);
    CHECK (PtlNIInit (1, NI_OPTIONS, PTL_PID_ANY, NULL, NULL, &other)
           == PTL_ARG_INVALID);
    CHECK (PtlNIInit (UINT32_MAX, NI_OPTIONS, PTL_PID_ANY, NULL, NULL, &other)
           == PTL_ARG_INVALID);
    CHECK (PtlNIInit (0, NI_OPTIONS, 65536, NULL, NULL, &other)
           == PTL_ARG_INVALID);
    for (unsigned options = 0; options < 64; options++) {
        int rc = PtlNIInit (0, options, PTL_PID_ANY, NULL, NULL, &other);

        CHECK (rc == PTL_OK || rc == PTL_ARG_INVALID);
        CHECK (rc != PTL_OK || PtlNIFini (other) == PTL_OK);
        pairs += rc == PTL_OK;
    }
    CHECK (pairs == 4);
    for (unsigned bit = 4; bit < 32; bit++)
        CHECK (PtlNIInit (0, NI_OPTIONS | 1u << bit, PTL_PID_ANY, NULL, NULL,
                          &other)
               == PTL_ARG_INVALID);
}

static void check_identity (void)
{
    ptl_process_t id;
    ptl_sr_value_t value;
    ptl_size_t size = 0;

    CHECK (PtlNIStatus (ni, PTL_SR_DROP_COUNT, NULL) == PTL_ARG_INVALID);
    for (int i = PTL_SR_DROP_COUNT; i <= PTL_SR_OPERATION_VIOLATIONS; i++)
        CHECK (PtlNIStatus (ni, (ptl_sr_index_t)i, &value) == PTL_OK
               && value == 0);
    CHECK (PtlNIStatus (ni, (ptl_sr_index_t)3, &value) == PTL_ARG_INVALID);
    CHECK (PtlNIStatus (ni, (ptl_sr_index_t)1000, &value) == PTL_ARG_INVALID);
    CHECK (PtlNIHandle (ni, NULL) == PTL_ARG_INVALID);
    CHECK (PtlGetUid (ni, NULL) == PTL_ARG_INVALID);
    CHECK (PtlGetId (ni, NULL) == PTL_ARG_INVALID);
    CHECK (PtlGetPhysId (ni, NULL) == PTL_ARG_INVALID);
    CHECK (PtlSetMap (ni, 1, NULL) == PTL_ARG_INVALID);
    CHECK (PtlSetMap (ni, 0, &given.id) == PTL_ARG_INVALID);
    CHECK (PtlGetMap (ni, 1, NULL, &size) == PTL_ARG_INVALID);
    CHECK (PtlGetMap (ni, 0, NULL, NULL) == PTL_ARG_INVALID);
    id = given.id;
    id.phys.pid = PTL_PID_ANY;
    CHECK (PtlSetMap (ni, 1, &id) == PTL_ARG_INVALID);
    id = given.id;
    id.phys.nid = 0;
    CHECK (PtlSetMap (ni, 1, &id) == PTL_ARG_INVALID);
}

static void check_table (void)
{
    ptl_pt_index_t index;

    CHECK (PtlPTAlloc (ni, 0, h[EQ], PTL_PT_ANY, NULL) == PTL_ARG_INVALID);
    for (unsigned bit = 0; bit < 32; bit++) {
        bool is_known = PT_OPTIONS & 1u << bit;
        int rc = PtlPTAlloc (ni, 1u << bit, h[EQ], PTL_PT_ANY, &index);

        CHECK (rc == (is_known ? PTL_OK : PTL_ARG_INVALID));
        CHECK (!is_known || PtlPTFree (ni, index) == PTL_OK);
    }
    CHECK (PtlPTAlloc (ni, PTL_PT_FLOWCTRL, PTL_EQ_NONE, PTL_PT_ANY, &index)
           == PTL_PT_EQ_NEEDED);
    CHECK (PtlPTAlloc (ni, PT_OPTIONS, h[EQ], PTL_PT_ANY, &index) == PTL_OK);
    CHECK (PtlPTFree (ni, index) == PTL_OK);
}

static void check_descriptors (void)
{
    ptl_iovec_t pieces[2] = { { NULL, 0 }, { NULL, 1 } };
    ptl_md_t md = { .start = pieces, .length = 1, .eq_handle = PTL_EQ_NONE,
                    .ct_handle = PTL_CT_NONE };
    ptl_handle_md_t handle;

    CHECK (PtlMDBind (ni, NULL, &handle) == PTL_ARG_INVALID);
    CHECK (PtlMDBind (ni, &md, NULL) == PTL_ARG_INVALID);
    for (unsigned bit = 0; bit < 32; bit++) {
        bool is_known = MD_OPTIONS & 1u << bit;

        md.options = 1u << bit;
        CHECK (PtlMDBind (ni, &md, &handle)
               == (is_known ? PTL_OK : PTL_ARG_INVALID));
        CHECK (!is_known || PtlMDRelease (handle) == PTL_OK);
    }
    md.options = MD_OPTIONS;
    CHECK (PtlMDBind (ni, &md, &handle) == PTL_OK);
    CHECK (PtlMDRelease (handle) == PTL_OK);
    md.length = 2; /* one of them is no memory */
    CHECK (PtlMDBind (ni, &md, &handle) == PTL_ARG_INVALID);
    md.start = NULL;
    CHECK (PtlMDBind (ni, &md, &handle) == PTL_ARG_INVALID);
    md.options = 0;
    CHECK (PtlMDBind (ni, &md, &handle) == PTL_ARG_INVALID);
    md.length = 0;
    CHECK (PtlMDBind (ni, &md, &handle) == PTL_OK);
    CHECK (PtlMDRelease (handle) == PTL_OK);
}

/* The entry as it is: appended, triggered and searched with. */
static void check_entry (const entry_t *entry, ptl_list_t list, int wanted)
{
    ptl_handle_any_t handle;

    CHECK (entry_append (ni, given.index, entry, list, NULL, &handle)
           == wanted);
    CHECK (wanted != PTL_OK || entry_unlink (handle) == PTL_OK);
    CHECK (entry_append_triggered (ni, given.index, entry, list, NULL,
                                   &handle, h[TRIGGER], 9)
           == wanted);
    CHECK (wanted != PTL_OK || entry_unlink (handle) == PTL_OK);
}

static void check_entries (void)
{
    unsigned known = IS_MATCHING ? ME_OPTIONS : LE_OPTIONS;
    entry_t entry = entry_of (call_memory, 8, 0);
    ptl_iovec_t piece = { call_memory, 8 };
    ptl_handle_any_t handle;

    for (unsigned bit = 0; bit < 32; bit++) {
        int wanted = known & 1u << bit ? PTL_OK : PTL_ARG_INVALID;

        entry = entry_of (bit == 0 ? (void *)&piece : call_memory,
                          bit == 0 ? 1 : 8, 1u << bit);
        check_entry (&entry, PTL_PRIORITY_LIST, wanted);
        check_entry (&entry, PTL_OVERFLOW_LIST, wanted);
        CHECK (entry_search (ni, given.index, &entry, PTL_SEARCH_ONLY, NULL)
               == wanted);
    }
    entry = entry_of (&piece, 1, known);
    check_entry (&entry, PTL_PRIORITY_LIST, PTL_OK);
    check_entry (&entry, (ptl_list_t)2, PTL_ARG_INVALID);
    check_entry (NULL, PTL_PRIORITY_LIST, PTL_ARG_INVALID);
    CHECK (entry_append (ni, given.index, &entry, PTL_PRIORITY_LIST, NULL,
                         NULL)
           == PTL_ARG_INVALID);
    CHECK (entry_append_triggered (ni, given.index, &entry, PTL_PRIORITY_LIST,
                                   NULL, NULL, h[TRIGGER], 9)
           == PTL_ARG_INVALID);
    CHECK (entry_search (ni, given.index, NULL, PTL_SEARCH_ONLY, NULL)
           == PTL_ARG_INVALID);
    CHECK (entry_search (ni, given.index, &entry, (ptl_search_op_t)2, NULL)
           == PTL_ARG_INVALID);
    CHECK (entry_append (ni, given.index + 1, &entry, PTL_PRIORITY_LIST, NULL,
                         &handle)
           == PTL_ARG_INVALID);
}

static void check_queues (void)
{
    unsigned which;
    ptl_event_t event;
    ptl_handle_eq_t eq;

    CHECK (PtlEQAlloc (ni, 4, NULL) == PTL_ARG_INVALID);
    CHECK (PtlEQAlloc (ni, 0, &eq) == PTL_ARG_INVALID);
    CHECK (PtlEQAlloc (ni, (1u << 20) + 1, &eq) == PTL_ARG_INVALID);
    CHECK (PtlEQAlloc (ni, PTL_SIZE_MAX, &eq) == PTL_ARG_INVALID);
    CHECK (PtlEQAlloc (ni, 1u << 20, &eq) == PTL_OK);
    CHECK (PtlEQFree (eq) == PTL_OK);
    CHECK (PtlEQGet (h[EQ], NULL) == PTL_ARG_INVALID);
    CHECK (PtlEQWait (h[EQ], NULL) == PTL_ARG_INVALID);
    CHECK (PtlEQPoll (NULL, 1, 0, &event, &which) == PTL_ARG_INVALID);
    CHECK (PtlEQPoll (&h[EQ], 0, 0, &event, &which) == PTL_ARG_INVALID);
    CHECK (PtlEQPoll (&h[EQ], 1, 0, NULL, &which) == PTL_ARG_INVALID);
    CHECK (PtlEQPoll (&h[EQ], 1, 0, &event, NULL) == PTL_ARG_INVALID);
    CHECK (PtlEQPoll (&h[EQ], 1, 0, &event, &which) == PTL_OK);
}

static void check_counters (void)
{
    unsigned which;
    ptl_size_t test = 0;
    ptl_ct_event_t value;

    CHECK (PtlCTAlloc (ni, NULL) == PTL_ARG_INVALID);
    CHECK (PtlCTGet (h[CT], NULL) == PTL_ARG_INVALID);
    CHECK (PtlCTWait (h[CT], 0, NULL) == PTL_ARG_INVALID);
    CHECK (PtlCTPoll (NULL, &test, 1, 0, &value, &which) == PTL_ARG_INVALID);
    CHECK (PtlCTPoll (&h[CT], NULL, 1, 0, &value, &which) == PTL_ARG_INVALID);
    CHECK (PtlCTPoll (&h[CT], &test, 0, 0, &value, &which)
           == PTL_ARG_INVALID);
    CHECK (PtlCTPoll (&h[CT], &test, 1, 0, NULL, &which) == PTL_ARG_INVALID);
    CHECK (PtlCTPoll (&h[CT], &test, 1, 0, &value, NULL) == PTL_ARG_INVALID);
    CHECK (PtlCTPoll (&h[CT], &test, 1, 0, &value, &which) == PTL_OK);
}

int main (void)
{
    CHECK (PtlInit () == PTL_OK);
    ni = call_interface (NI_OPTIONS);
    call_make (ni, &given);
    check_interfaces ();
    check_identity ();
    check_table ();
    check_descriptors ();
    check_queues (); /* the entries' events fill it */
    check_entries ();
    check_counters ();
    CHECK (PtlEndBundle (ni) == PTL_ARG_INVALID); /* none has begun */
    PtlFini ();
    return 0;
}
