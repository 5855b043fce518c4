#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "ptl_fwd.h"
#include "ptl_fwd_parts.h"

static int free_buffer (const struct ptl_fwd *fwd)
{
    for (int i = 0; i < PTL_SOURCE_BUFFERS; i++)
        if (fwd->users[i] == 0 && fwd->buffers[i])
            return i;
    return -1;
}

/* Fill a buffer. 0, or the reason of failure; *detail an errno. */
static uint32_t read_chunk (struct ptl_fwd *fwd, uint8_t *buffer, int *detail)
{
    uint64_t length = ptl_fwd_chunk_length (fwd, fwd->next_chunk), have = 0;
    uint64_t from = fwd->next_chunk * fwd->object.chunk_bytes;
    ssize_t n;

    *detail = 0;
    while (have < length) {
        n = pread (fwd->fd, buffer + have, length - have,
                   (off_t)(from + have));
        if (n == 0)
            return PTLX_OBJECT_FILE_SHRANK;
        if (n < 0 && errno != EINTR) {
            *detail = errno;
            return PTLX_OBJECT_FILE_ERROR;
        }
        have += n > 0 ? (uint64_t)n : 0;
    }
    return 0;
}

static bool send_chunk (struct ptl_fwd *fwd, int buffer)
{
    struct ptl_op *op;

    for (uint32_t i = 0; i < fwd->object.n_children; i++) {
        op = ptl_fwd_chunk (fwd, fwd->next_chunk, &fwd->object.children[i],
                       fwd->buffers[buffer]);
        if (!op)
            return false;
        fwd->users[buffer]++;
        ptl_end_work (fwd->end, &op->work);
    }
    fwd->next_chunk++;
    return true;
}

static void complete_source (struct ptl_fwd *fwd)
{
    close (fwd->fd); /* before the event: the owner may replace the file */
    fwd->fd = -1;
    ptl_fwd_notify (fwd, PTLX_EVENT_OBJECT_SENT);
    fwd->is_over = true;
    ptl_fwd_destroy (fwd);
}

/* Take buffers, once it is this object's turn. */
static int begin (struct ptl_fwd *fwd)
{
    uint64_t length = ptl_fwd_chunk_length (fwd, 0);
    uint64_t each = length + fwd->object.n_children * sizeof (struct ptl_op);
    uint64_t most = fwd->end->config.sending_bytes / each;
    uint64_t n = fwd->n_chunks;

    n = n < PTL_SOURCE_BUFFERS ? n : PTL_SOURCE_BUFFERS;
    n = n < most ? n : most > 0 ? most : 1;
    if (!ptl_fwd_turn_to_read (fwd, n * each))
        return PTL_OK;
    for (uint64_t i = 0; i < n; i++)
        if (!(fwd->buffers[i] = malloc (length)))
            return PTL_NO_SPACE;
    ptl_fwd_do_later (fwd);
    return PTL_OK;
}

static void send_next_chunk (struct ptl_fwd *fwd, int buffer)
{
    uint32_t reason;
    int detail;

    if ((reason = read_chunk (fwd, fwd->buffers[buffer], &detail)) != 0)
        ptl_fwd_fail (fwd, reason, detail, NULL);
    else if (!send_chunk (fwd, buffer))
        ptl_fwd_fail (fwd, PTLX_OBJECT_FILE_ERROR, ENOMEM, NULL);
    else
        ptl_fwd_do_later (fwd); /* there may be another free buffer */
}

void ptl_fwd_tend_source (struct ptl_fwd *fwd)
{
    int buffer;

    if (fwd->next_chunk == fwd->n_chunks) {
        if (fwd->n_ops == 0)
            complete_source (fwd);
        return;
    }
    if (fwd->buffered == 0) {
        if (begin (fwd) != PTL_OK)
            ptl_fwd_fail (fwd, PTLX_OBJECT_FILE_ERROR, ENOMEM, NULL);
    } else if ((buffer = free_buffer (fwd)) >= 0) {
        send_next_chunk (fwd, buffer);
    }
}

int ptl_fwd_arm_source (struct ptl_fwd *fwd)
{
    if ((fwd->fd = fcntl (fwd->object.fd, F_DUPFD_CLOEXEC, 0)) < 0)
        return PTL_FAIL;
    return begin (fwd);
}
