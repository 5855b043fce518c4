/* wire.h - the packets of a launch server and its client.
 *
 * native/wire/CLIENT.md is the specification. Numbers are little-endian, which
 * both machines that we build for are; fields lie as they do here.
 */
#ifndef YOD_CLIENT_WIRE_H
#define YOD_CLIENT_WIRE_H

#include <stdint.h>

#define WIRE_MAGIC 0x31434f59u          /* "YOC1" */
#define WIRE_VERSION 1
#define WIRE_RELEASE_BYTES 32
#define WIRE_DATA_MAX 65536
#define WIRE_HEAD_BYTES 8
#define WIRE_PACKET_MAX (WIRE_HEAD_BYTES + WIRE_DATA_MAX)
#define WIRE_OUTPUT_WINDOW (256 * 1024) /* of a stream, not written yet */
#define WIRE_STRINGS_MAX (1 << 20)      /* arguments, and likewise variables */
#define WIRE_INVOCATION_MAX (16 << 20)  /* bytes of all of them */
#define WIRE_TEXT_MAX 4096
#define WIRE_PATH_MAX 4096              /* with the NUL */
#define WIRE_NAMESPACES 6               /* mnt pid user net ipc uts */

enum server_kind {
    SERVER_HELLO = 1,
    SERVER_COLD = 2,                    /* value: 1, nothing is launched */
    SERVER_OUTPUT = 3,                  /* value: stream */
    SERVER_READ = 4,                    /* value: bytes */
    SERVER_START = 5,                   /* value: keeper */
    SERVER_CONTINUE = 6,                /* value: keeper */
    SERVER_KILL_ORPHANS = 7,            /* value: token */
    SERVER_SUSPEND = 8,
    SERVER_APPEND = 9,                  /* value: token */
    SERVER_PONG = 10,
    SERVER_EXIT = 11,
    SERVER_TIMES = 12,                  /* value: press_ms */
    SERVER_LEAVE = 13,
    SERVER_GIVE = 14,                   /* value: stream */
};

enum client_kind {
    CLIENT_REQUEST = 1,                 /* value: version */
    CLIENT_INPUT = 2,                   /* value: 1, the terminal is gone */
    CLIENT_WRITTEN = 3,                 /* value: stream */
    CLIENT_SIGNAL = 4,                  /* value: signal number */
    CLIENT_OUTPUT_FAILED = 5,           /* value: stream */
    CLIENT_STARTED = 6,                 /* value: keeper */
    CLIENT_ENDED = 7,                   /* value: keeper */
    CLIENT_ORPHANS_KILLED = 8,          /* value: token */
    CLIENT_APPENDED = 9,                /* value: token */
    CLIENT_PING = 10,
    CLIENT_LEFT = 11,                   /* value: streams */
    CLIENT_GIVEN = 12,                  /* value: stream */
};

#define START_PORTALS 1u                /* flags of START */
#define APPEND_LOG 1u                   /* flags of APPEND */
#define APPEND_MORE 2u
#define APPEND_EMPTIES 4u
#define APPEND_FLAGS 7u                 /* all of them */
#define EXIT_DROP 1u                    /* flags of EXIT */

enum gift {                             /* payload of GIVEN */
    GIFT_NOTHING = 0,
    GIFT_PIPE = 1,                      /* its descriptor comes with it */
    GIFT_NULL = 2,                      /* it is /dev/null */
};

enum stdio_flags {                      /* of REQUEST */
    STDIO_SAME_OUTPUT = 1,
    STDIO_STDIN_TERMINAL = 2,           /* << number of the descriptor */
    STDIO_STDIN_CLOSED = 16,            /* likewise */
    STDIO_STAND_IN = 128,               /* another process ends when yod is left */
    STDIO_YODJOB = 256,                 /* the command is yodjob */
};

struct wire_head {
    uint32_t kind, value;
};
_Static_assert (sizeof (struct wire_head) == WIRE_HEAD_BYTES, "CLIENT.md");

struct wire_hello {
    struct wire_head head;              /* value: version */
    uint32_t magic, server, press_ms, liveness_ms;
    uint64_t namespaces[WIRE_NAMESPACES];
    uint64_t root_device, root_inode;
    char release[WIRE_RELEASE_BYTES];
};
_Static_assert (sizeof (struct wire_hello) == 120, "CLIENT.md");

struct wire_request {
    struct wire_head head;              /* value: version */
    uint32_t umask, stdio;
    uint64_t ignored;                   /* bit n - 1: signal n */
    uint32_t arguments, variables, limits;
} __attribute__ ((packed));
_Static_assert (sizeof (struct wire_request) == 36, "CLIENT.md");

struct wire_limit {                     /* follows a request, for each limit */
    uint32_t resource;
    uint64_t soft;                      /* 2^64-1: unlimited */
} __attribute__ ((packed));
_Static_assert (sizeof (struct wire_limit) == 12, "CLIENT.md");

#endif
