#include "devices.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* <linux/bpf.h> */
#define PROGRAM_LOAD 5
#define PROGRAM_ATTACH 8
#define PROGRAM_QUERY 16
#define OF_CGROUP_DEVICES 15            /* BPF_PROG_TYPE_CGROUP_DEVICE */
#define TO_CGROUP_DEVICES 6             /* BPF_CGROUP_DEVICE */
#define BESIDE_OTHERS 2                 /* BPF_F_ALLOW_MULTI */
#define CHARACTER_DEVICE 2              /* BPF_DEVCG_DEV_CHAR */

/* Registers: 0 has the answer, 1 struct bpf_cgroup_dev_ctx. */
#define LOAD_32 0x61
#define AND 0x57
#define JUMP_EQUAL 0x15
#define JUMP_NOT_EQUAL 0x55
#define MOVE 0xb7
#define EXIT 0x95

struct load_call {
    uint32_t type, count;
    uint64_t instructions, license;
    uint32_t log_level, log_bytes;
    uint64_t log;
    uint32_t kernel_version, flags;
};

struct attach_call {
    uint32_t target_fd, program_fd, type, flags;
};

struct query_call {
    uint32_t target_fd, type, flags, attach_flags;
    uint64_t ids;
    uint32_t count;
};

_Static_assert (sizeof (struct devices_instruction) == 8, "struct bpf_insn");

int devices_read (const char *text, struct devices_number *denied)
{
    int n = 0;
    char *end;

    while (*text) {
        unsigned long major, minor;

        if (n == (int) DEVICES_MAX || *text < '0' || *text > '9')
            return -1;
        major = strtoul (text, &end, 10);
        if (*end != ':' || end[1] < '0' || end[1] > '9' || major > 0xfff)
            return -1;
        minor = strtoul (end + 1, &end, 10);
        if ((*end != ' ' && *end != 0) || minor > 0xfffff)
            return -1;
        denied[n++] = (struct devices_number) { (uint32_t) major,
                                                (uint32_t) minor };
        text = *end ? end + 1 : end;
    }
    return n;
}

size_t devices_program (const struct devices_number *denied, size_t n,
                        struct devices_instruction *out)
{
    const size_t deny = DEVICES_INSTRUCTIONS (n) - 2;
    size_t at = 0;

#define SAY(...) out[at++] = (struct devices_instruction) { __VA_ARGS__ }
    SAY (LOAD_32, 2 | 1 << 4, 0, 0);            /* access << 16 | type */
    SAY (AND, 2, 0, 0xffff);
    SAY (LOAD_32, 3 | 1 << 4, 4, 0);            /* major */
    SAY (LOAD_32, 4 | 1 << 4, 8, 0);            /* minor */
    SAY (JUMP_NOT_EQUAL, 2, (int16_t) (2 * n), CHARACTER_DEVICE);
    for (size_t i = 0; i < n; i++) {
        SAY (JUMP_NOT_EQUAL, 3, 1, (int32_t) denied[i].major);
        SAY (JUMP_EQUAL, 4, (int16_t) (deny - (5 + 2 * i + 2)),
             (int32_t) denied[i].minor);
    }
    SAY (MOVE, 0, 0, 1);
    SAY (EXIT, 0, 0, 0);
    SAY (MOVE, 0, 0, 0);                        /* deny */
    SAY (EXIT, 0, 0, 0);
#undef SAY
    return at;
}

static int load (const struct devices_instruction *program, size_t length)
{
    struct load_call call = {
        .type = OF_CGROUP_DEVICES,
        .count = (uint32_t) length,
        .instructions = (uintptr_t) program,
        .license = (uintptr_t) "MIT",
    };

    return (int) syscall (SYS_bpf, PROGRAM_LOAD, &call, sizeof (call));
}

static int attach (int group, int program)
{
    struct attach_call call = {
        .target_fd = (uint32_t) group,
        .program_fd = (uint32_t) program,
        .type = TO_CGROUP_DEVICES,
        .flags = BESIDE_OTHERS,
    };

    return (int) syscall (SYS_bpf, PROGRAM_ATTACH, &call, sizeof (call));
}

int devices_deny (const char *group, const char *text)
{
    static struct devices_number denied[DEVICES_MAX];
    static struct devices_instruction program[DEVICES_INSTRUCTIONS (DEVICES_MAX)];
    int n = devices_read (text, denied), directory, fd, result = -1, error;

    if (n < 0) {
        errno = EINVAL;
        return -1;
    }
    directory = open (group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return -1;
    fd = load (program, devices_program (denied, (size_t) n, program));
    if (fd >= 0)
        result = attach (directory, fd);
    error = errno;
    if (fd >= 0)
        close (fd);
    close (directory);
    errno = error;
    return result;
}

int devices_programs (const char *group)
{
    struct query_call call = { .type = TO_CGROUP_DEVICES };
    int directory = open (group, O_RDONLY | O_DIRECTORY | O_CLOEXEC), error;
    long result;

    if (directory < 0)
        return -1;
    call.target_fd = (uint32_t) directory;
    result = syscall (SYS_bpf, PROGRAM_QUERY, &call, sizeof (call));
    error = errno;
    close (directory);
    errno = error;
    return result == 0 ? (int) call.count : -1;
}
