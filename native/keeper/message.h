/* message.h - messages of a rank's process to the keeper before user code.
 *
 * Fixed size, one write each, below PIPE_BUF: messages of many processes do not
 * mix in the one pipe. The hold library writes them too, without a libc. They
 * come from the user's processes: the keeper checks every index and text.
 */
#ifndef YOD_KEEPER_MESSAGE_H
#define YOD_KEEPER_MESSAGE_H

#include <stdint.h>

enum message_kind {
    MESSAGE_FAILED = 1,                 /* error, step, text; then it exits */
    MESSAGE_TRACE_ME = 2,               /* waits for the keeper's answer */
    MESSAGE_HELD = 3,                   /* by the hold library */
    MESSAGE_HELD_BEFORE_EXEC = 4,
};

#define MESSAGE_TEXT_BYTES 200

struct message {
    uint32_t kind;
    uint32_t index;                     /* place in the specification */
    int32_t error;
    uint32_t step;
    char text[MESSAGE_TEXT_BYTES];
};

/* The hold library's variable: its report and go descriptors, its index, the
 * length of its own path in LD_PRELOAD, and the descriptor of the claims file
 * (0: there is none), as decimal numbers with commas. */
#define START_VARIABLE "YODSTART="

/* The claims file holds one NUL-ended text per rank, at its index times this
 * many bytes: a multiple of every page size, so that a rank that maps its own
 * has no other's. */
#define CLAIM_STRIDE_BYTES 65536
#define CLAIM_BYTES 200

/* How the name of a library that has MPI_Init starts; see KEEPER.md. */
#define MPI_NAME_BYTES 16
#define MPI_NAMES {                                                     \
        "libmpi.so", "libmpich.so", "libmpich_", "libmpi_abi.so",       \
        "libmpi_mt.so", "libmpi_ibm.so", "libmpi_cray", "libmpi_gnu",   \
        "libmpi_intel", "libmpi_amd", "libmpi_aocc", "libmpi_nvidia",   \
        "libmpi_pgi",                                                   \
    }

#endif
