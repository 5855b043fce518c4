/* The four interfaces of a process at once (3.6.1): each has a portal table of its
 * own, and a message to one is not seen on another.
 */
#define KIND 1
#include "world.h"

static const unsigned int kinds[4] = {
    PTL_NI_MATCHING | PTL_NI_PHYSICAL,
    PTL_NI_MATCHING | PTL_NI_LOGICAL,
    PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL,
    PTL_NI_NO_MATCHING | PTL_NI_LOGICAL,
};

static ptl_handle_ni_t nis[4];
static ptl_process_t *ids[4];
static ptl_handle_eq_t eqs[4];
static uint64_t cells[4][64];

static void expose_kind (int k)
{
    ptl_le_t le = { .start = cells[k],
                    .length = sizeof (cells[k]),
                    .uid = PTL_UID_ANY,
                    .options = PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE,
                    .ct_handle = PTL_CT_NONE };
    ptl_me_t me = { .start = cells[k],
                    .length = sizeof (cells[k]),
                    .uid = PTL_UID_ANY,
                    .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE,
                    .match_bits = 99, .ct_handle = PTL_CT_NONE };
    ptl_handle_me_t handle;
    ptl_pt_index_t pt;

    OK (PtlEQAlloc (nis[k], 256, &eqs[k]));
    OK (PtlPTAlloc (nis[k], 0, eqs[k], 4, &pt));
    if (kinds[k] & PTL_NI_LOGICAL)
        me.match_id.rank = PTL_RANK_ANY;
    else
        me.match_id.phys
            = (typeof (me.match_id.phys)){ PTL_NID_ANY, PTL_PID_ANY };
    if (kinds[k] & PTL_NI_MATCHING)
        OK (PtlMEAppend (nis[k], pt, &me, PTL_PRIORITY_LIST, NULL, &handle));
    else
        OK (PtlLEAppend (nis[k], pt, &le, PTL_PRIORITY_LIST, NULL, &handle));
}

static void put_kind (int k)
{
    uint64_t word = (uint64_t)(k * 100 + rank);
    ptl_handle_ct_t ct;
    ptl_handle_md_t md;

    OK (PtlCTAlloc (nis[k], &ct));
    md = bind_md (nis[k], &word, 8, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, ct);
    for (int to = 0; to < size; to++)
        OK (PtlPut (md, 0, 8, PTL_CT_ACK_REQ, ids[k][to], 4,
                    kinds[k] & PTL_NI_MATCHING ? 99 : 0, 8 * (size_t)rank,
                    NULL, (ptl_hdr_data_t)k));
    wait_count (ct, (ptl_size_t)size);
    OK (PtlMDRelease (md));
}

int main (void)
{
    ptl_handle_ni_t again;
    ptl_event_t event;
    int value;

    world_open ();
    for (int k = 0; k < 4; k++) {
        ids[k] = world_interface (kinds[k], NULL, NULL, &nis[k]);
        for (int j = 0; j < k; j++)
            CHECK (!PtlHandleIsEqual (nis[k], nis[j]));
        expose_kind (k);
    }
    OK (PtlNIInit (PTL_IFACE_DEFAULT, kinds[2], PTL_PID_ANY, NULL, NULL,
                   &again));
    CHECK (again == nis[2]);
    OK (PtlNIFini (again)); /* counted */
    barrier ();
    for (int k = 4; k-- > 0;)
        put_kind (k);
    barrier ();
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < size; i++) {
            OK (PtlEQGet (eqs[k], &event));
            CHECK (event.type == PTL_EVENT_PUT && event.mlength == 8);
            CHECK (event.hdr_data == (ptl_hdr_data_t)k && event.pt_index == 4);
        }
        CHECK (PtlEQGet (eqs[k], &event) == PTL_EQ_EMPTY);
        for (int from = 0; from < size; from++)
            CHECK (cells[k][from] == (uint64_t)(k * 100 + from));
        OK (PtlNIStatus (nis[k], PTL_SR_DROP_COUNT, &value));
        CHECK (value == 0);
    }
    barrier ();
    OK (PtlNIFini (nis[0])); /* the others go on */
    barrier ();
    put_kind (3);
    return world_close ();
}
