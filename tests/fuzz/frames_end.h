/* frames_end.h - steps of fuzz_frames.c: what the end does meanwhile. */
#ifndef FRAMES_END_H
#define FRAMES_END_H

#include "frames_world.h"

/* The end does as much to the attacker. */
static inline void step_end_asks (struct world *w)
{
    uint8_t what = take8 (&w->in), type = take8 (&w->in);
    uint64_t length = size_of (take8 (&w->in)) % LARGE_BYTES;
    uint64_t operand[4] = { 1 };
    ptl_process_t to = { .phys = { LOOPBACK, w->now->pid } };
    ptl_op_t operation = (ptl_op_t)(what / 4 % 20);
    ptl_datatype_t datatype = (ptl_datatype_t)(type % 16);
    int rc;

    if (type & 128)
        to = w->end.id;
    switch (what % 4) {
    case 0:
        rc = PtlGet (w->md, 0, length, to, 2, 3, 0, NULL);
        break;
    case 1:
        rc = PtlAtomic (w->md, 0, length, PTL_ACK_REQ, to, 2, 3, 0, NULL, 0,
                        operation, datatype);
        break;
    case 2:
        rc = PtlFetchAtomic (w->md, 0, w->md, LARGE_BYTES / 2, length, to, 2,
                             3, 0, NULL, 0, operation, datatype);
        break;
    default:
        rc = PtlSwap (w->md, 0, w->md, LARGE_BYTES / 2, length, to, 2, 3, 0,
                      NULL, 0, operand, operation, datatype);
        break;
    }
    HOLDS (rc == PTL_OK || rc == PTL_ARG_INVALID);
}

static inline void step_put (struct world *w)
{
    uint8_t how = take8 (&w->in);
    uint64_t length = size_of (take8 (&w->in));
    ptl_process_t to = { .phys = { LOOPBACK, w->now->pid } };

    if (how & 128)
        to = w->end.id;
    if (length > sizeof (large))
        length = sizeof (large);
    HOLDS (PtlPut (w->md, 0, length, how % 4 ? (ptl_ack_req_t)(how % 4)
                                             : PTL_NO_ACK_REQ,
                   to, how / 4 % 6, 3, 0, NULL, 0)
           == PTL_OK);
}

static inline void step_message (struct world *w)
{
    uint64_t length = size_of (take8 (&w->in)) % (PTLX_MESSAGE_MAX_BYTES + 1);

    if (w->sent + length > MOST_SENT)
        return;
    w->sent += length;
    HOLDS (PtlxSend (w->end.ni, LOOPBACK, w->now->pid, large, length)
           == PTL_OK);
}

static inline void step_end (struct world *w)
{
    uint8_t what = take8 (&w->in);
    ptl_process_t to = { .phys = { LOOPBACK, w->now->pid } };

    switch (what % 9) {
    case 0:
        HOLDS (PtlxDisconnect (w->end.ni, LOOPBACK, w->now->pid) == PTL_OK);
        break;
    case 1:
        HOLDS (PtlPTEnable (w->end.ni, what / 9 % 2 ? 0 : 3) == PTL_OK);
        break;
    case 2: /* PtlPTDisable waits for what lands, so for the attackers */
        break;
    case 3:
        add_entry (w, what / 9 % 2 ? 3 : 0, w->memory[what / 18 % 3],
                   what / 9 % 2 ? PTL_ME_USE_ONCE : PTL_ME_MANAGE_LOCAL, 0,
                   PTL_PRIORITY_LIST);
        break;
    case 4: /* it may be gone by now */
        (void)PtlMEUnlink (w->entry);
        break;
    case 5:
        HOLDS (PtlxCancel (w->end.ni, OBJECT_BITS) == PTL_OK);
        break;
    case 6:
        arm_object (w, what / 9 % 2);
        break;
    case 7:
        HOLDS (PtlTriggeredPut (w->md, 0, 100, PTL_ACK_REQ, to, 2, 0, 0, NULL,
                                0, w->ct, what / 9)
               == PTL_OK);
        break;
    case 8:
        HOLDS (PtlCTInc (w->ct, (ptl_ct_event_t){ what / 9 % 2,
                                                  what / 18 % 2 })
               == PTL_OK);
        break;
    }
}

#endif
