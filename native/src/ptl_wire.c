#include "ptl_wire.h"

#include <stdbool.h>

#include "portals4.h"
#include "ptl_bytes.h"

void ptl_wire_encode (const struct ptl_frame *frame,
                      uint8_t out[PTL_HEADER_BYTES])
{
    out[0] = frame->type;
    out[1] = PTL_VERSION_MAX;
    ptl_put16 (out + 2, frame->flags);
    out[4] = frame->kind;
    out[5] = frame->lane;
    out[6] = frame->pt_index;
    out[7] = frame->detail;
    ptl_put32 (out + 8, frame->length);
    ptl_put32 (out + 12, frame->incarnation);
    ptl_put32 (out + 16, frame->op_index);
    ptl_put32 (out + 20, frame->op_generation);
    ptl_put16 (out + 24, frame->operation);
    ptl_put16 (out + 26, frame->datatype);
    ptl_put32 (out + 28, frame->fragment);
    ptl_put64 (out + 32, frame->total);
    ptl_put64 (out + 40, frame->match_bits);
    ptl_put64 (out + 48, frame->offset);
    ptl_put64 (out + 56, frame->hdr_data);
}

static bool is_known (const struct ptl_frame *frame)
{
    switch (frame->type) {
    case PTL_FRAME_PUT:
        return frame->detail <= PTL_OC_ACK_REQ
            && (!(frame->flags & PTL_FLAG_RETRY) || frame->pt_index < 64);
    case PTL_FRAME_ACK:
        return frame->length == 0 && frame->detail <= PTL_NI_SEGV;
    case PTL_FRAME_PING:
    case PTL_FRAME_PONG:
    case PTL_FRAME_BYE:
        return frame->length == 0;
    case PTL_FRAME_MEMORY:
        return frame->length == 0;
    default:
        return false;
    }
}

int ptl_wire_decode (const uint8_t in[PTL_HEADER_BYTES],
                     struct ptl_frame *frame)
{
    frame->type = in[0];
    frame->flags = ptl_get16 (in + 2);
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
        || frame->kind >= PTL_KINDS
        || frame->lane >= PTL_LANES || frame->length > PTL_PAYLOAD_MAX
        || frame->operation || frame->datatype || !is_known (frame))
        return PTL_FAIL;
    return PTL_OK;
}
