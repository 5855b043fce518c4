/* Two programs wait for each other's messages in turn, asleep in the same
 * epoll set as their progress threads and without a limit. */
#include "near_ends.h"

#define ROUNDS 3000

struct program {
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    ptl_process_t id, peer;
};

static char memory[8], source[8];

static void program_open (struct program *p)
{
    ptl_md_t md = { .start = source, .length = sizeof (source),
                    .options = PTL_MD_EVENT_SEND_DISABLE,
                    .ct_handle = PTL_CT_NONE, .eq_handle = PTL_EQ_NONE };
    ptl_me_t me = { .start = memory, .length = sizeof (memory),
                    .ct_handle = PTL_CT_NONE, .uid = PTL_UID_ANY,
                    .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE,
                    .match_id.phys = { PTL_NID_ANY, PTL_PID_ANY } };
    ptl_pt_index_t index;
    ptl_handle_me_t handle;

    CHECK (PtlInit () == PTL_OK);
    CHECK (PtlNIInit (PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL,
                      PTL_PID_ANY, NULL, NULL, &p->ni)
           == PTL_OK);
    CHECK (PtlEQAlloc (p->ni, 64, &p->eq) == PTL_OK);
    CHECK (PtlPTAlloc (p->ni, 0, p->eq, 0, &index) == PTL_OK);
    CHECK (PtlMEAppend (p->ni, index, &me, PTL_PRIORITY_LIST, NULL, &handle)
           == PTL_OK);
    md.eq_handle = p->eq;
    CHECK (PtlMDBind (p->ni, &md, &p->md) == PTL_OK);
    CHECK (PtlGetPhysId (p->ni, &p->id) == PTL_OK);
}

static void program_run (struct other *other, bool is_first)
{
    struct program p;
    ptl_event_t event;

    CHECK (setenv ("PTL_SPIN_US", "0", 1) == 0);
    CHECK (unsetenv ("PTL_KEY_FILE") == 0);
    program_open (&p);
    other_tell (other, &p.id, sizeof (p.id));
    other_hear (other, &p.peer, sizeof (p.peer));
    for (int i = 0; i < ROUNDS; i++) {
        if (is_first)
            CHECK (PtlPut (p.md, 0, 8, PTL_NO_ACK_REQ, p.peer, 0, 0, 0, NULL,
                           0)
                   == PTL_OK);
        CHECK (PtlEQWait (p.eq, &event) == PTL_OK);
        CHECK (event.type == PTL_EVENT_PUT);
        if (!is_first)
            CHECK (PtlPut (p.md, 0, 8, PTL_NO_ACK_REQ, p.peer, 0, 0, 0, NULL,
                           0)
                   == PTL_OK);
    }
    CHECK (PtlNIFini (p.ni) == PTL_OK);
    PtlFini ();
}

static void second (struct other *parent)
{
    program_run (parent, false);
}

int main (void)
{
    struct other other = other_start (second);

    program_run (&other, true);
    other_end (&other);
    return 0;
}
