#include "claim.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int claim_make_file (size_t n_ranks)
{
    int fd = memfd_create ("yodhold", MFD_CLOEXEC);

    if (fd >= 0
        && ftruncate (fd, (off_t) (n_ranks * CLAIM_STRIDE_BYTES)) != 0) {
        close (fd);
        return -1;
    }
    return fd;
}

bool claim_is_line (const char *text)
{
    for (; *text; text++)
        if ((unsigned char) *text < ' ' || *text == 127)
            return false;
    return true;
}

bool claim_read (int fd, size_t index, char text[static CLAIM_BYTES])
{
    /* Read, not mapped: a mapping would fault if the file were cut short. */
    ssize_t n = pread (fd, text, CLAIM_BYTES,
                       (off_t) (index * CLAIM_STRIDE_BYTES));

    return n == CLAIM_BYTES && *text && memchr (text, 0, CLAIM_BYTES)
           && claim_is_line (text);
}
