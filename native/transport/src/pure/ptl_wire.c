#include "ptl_wire.h"

#include <stdbool.h>

#include "portals4.h"
#include "ptl_atomic.h"

#define WHOLE (PTL_FLAG_FIRST | PTL_FLAG_LAST)
#define TRIES (PTL_FLAG_RETRY | PTL_FLAG_RESEND)

uint32_t ptl_wire_operand (unsigned operation, unsigned datatype)
{
    if (!ptl_atomic_needs_operand (operation))
        return 0;
    return (uint32_t)ptl_atomic_size (datatype);
}

/* A fragment of a larger operation: its offset tells whether it is the last. */
static bool is_fragment (const struct ptl_frame *f)
{
    bool is_first = f->flags & PTL_FLAG_FIRST;
    uint64_t from = is_first ? 0 : f->offset;

    if (f->total > PTL_MESSAGE_MOST || is_first != (f->fragment == 0)
        || from > f->total || f->length > f->total - from
        || (f->length == 0 && f->total > 0))
        return false;
    return !(f->flags & PTL_FLAG_LAST) == (f->length < f->total - from);
}

static bool is_put (const struct ptl_frame *f)
{
    if ((f->flags & PTL_FLAG_RESEND) && !(f->flags & PTL_FLAG_RETRY))
        return false;
    return f->detail <= PTL_OC_ACK_REQ && is_fragment (f)
        && (!(f->flags & PTL_FLAG_RETRY) || f->pt_index < 64);
}

static bool is_reply (const struct ptl_frame *f)
{
    return !(f->flags & TRIES) && f->detail <= PTL_NI_SEGV
        && is_fragment (f) && (f->detail == PTL_NI_OK || f->total == 0);
}

static bool is_get (const struct ptl_frame *f)
{
    return f->flags == WHOLE && f->fragment == 0 && f->detail == 0
        && f->length == 0 && f->total <= PTL_MESSAGE_MOST;
}

static bool is_atomic (const struct ptl_frame *f)
{
    return f->flags == WHOLE && f->fragment == 0
        && f->detail <= PTL_OC_ACK_REQ && f->total <= PTL_ATOMIC_MOST
        && f->length == f->total
        && ptl_atomic_allows (PTL_CALL_ATOMIC, f->operation, f->datatype)
        && ptl_atomic_fits (f->operation, f->datatype, f->total);
}

static bool is_fetch (const struct ptl_frame *f)
{
    return f->flags == WHOLE && f->fragment == 0 && f->detail == 0
        && f->total <= PTL_ATOMIC_MOST
        && (ptl_atomic_allows (PTL_CALL_FETCH_ATOMIC, f->operation,
                               f->datatype)
            || ptl_atomic_allows (PTL_CALL_SWAP, f->operation, f->datatype))
        && ptl_atomic_fits (f->operation, f->datatype, f->total)
        && f->length
               == f->total + ptl_wire_operand (f->operation, f->datatype);
}

static bool is_known (const struct ptl_frame *f)
{
    bool is_plain = f->operation == 0 && f->datatype == 0;

    switch (f->type) {
    case PTL_FRAME_PUT:
        return is_plain && is_put (f);
    case PTL_FRAME_GET:
        return is_plain && is_get (f);
    case PTL_FRAME_ATOMIC:
        return is_atomic (f);
    case PTL_FRAME_FETCH:
        return is_fetch (f);
    case PTL_FRAME_REPLY:
        return is_plain && is_reply (f);
    case PTL_FRAME_ACK:
        return is_plain && f->length == 0 && f->flags == 0
            && f->detail <= PTL_ACK_SILENT;
    case PTL_FRAME_PING:
    case PTL_FRAME_PONG:
    case PTL_FRAME_BYE:
    case PTL_FRAME_MEMORY:
        return is_plain && f->length == 0 && f->flags == 0;
    default:
        return false;
    }
}

int ptl_wire_decode (const uint8_t in[PTL_HEADER_BYTES],
                     struct ptl_frame *frame)
{
    frame->type = in[0];
    frame->flags = ptl_get16 (in + 2);
    frame->is_sealed = frame->flags & PTL_FLAG_INTEGRITY;
    frame->flags &= (uint16_t)~PTL_FLAG_INTEGRITY;
    frame->kind = in[4];
    frame->lane = in[5];
    frame->pt_index = in[6];
    frame->detail = in[7];
    frame->length = ptl_get32 (in + 8);
    frame->incarnation = ptl_get32 (in + 12);
    frame->op_index = ptl_get32 (in + 16);
    frame->op_generation = ptl_get32 (in + 20);
    frame->operation = ptl_get16 (in + 24);
    frame->datatype = ptl_get16 (in + 26);
    frame->fragment = ptl_get32 (in + 28);
    frame->total = ptl_get64 (in + 32);
    frame->match_bits = ptl_get64 (in + 40);
    frame->offset = ptl_get64 (in + 48);
    frame->hdr_data = ptl_get64 (in + 56);
    if (in[1] != PTL_VERSION_MAX || (frame->flags & ~PTL_FLAGS_KNOWN)
        || frame->kind >= PTL_KINDS || frame->lane >= PTL_LANES
        || frame->length > PTL_PAYLOAD_MAX
        || !is_known (frame))
        return PTL_FAIL;
    return PTL_OK;
}
