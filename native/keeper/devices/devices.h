/* devices.h - which devices the processes of a control group may not open.
 *
 * On cgroup v2 a BPF program decides on each open of a device file. It denies
 * the character devices that it was made with, and allows all others: null,
 * zero, random, terminals, and those of fabrics, which nobody could list. It
 * stays with the group when its loader has ended, and holds for the groups
 * below as well, whatever programs they have.
 */
#ifndef YOD_KEEPER_DEVICES_H
#define YOD_KEEPER_DEVICES_H

#include <stddef.h>
#include <stdint.h>

#define DEVICES_MAX 1024u               /* twice the GPUs of a node, and more */
#define DEVICES_INSTRUCTIONS(n) (2 * (size_t) (n) + 9)

/* One instruction of a BPF program; the layout of struct bpf_insn. */
struct devices_instruction {
    uint8_t code, registers;            /* destination, source << 4 */
    int16_t offset;
    int32_t value;
};

struct devices_number {
    uint32_t major, minor;
};

/* Read "195:1 226:129".
 *   how many; -1: it says something else, or more than DEVICES_MAX
 */
int devices_read (const char *text, struct devices_number *denied);

/* Write the program that denies these; `out` has room for
 * DEVICES_INSTRUCTIONS (n). Returns its length.
 */
size_t devices_program (const struct devices_number *denied, size_t n,
                        struct devices_instruction *out);

/* Have the group at this path deny these devices, from now on.
 *   0; -1 and errno: it may not, or the kernel can not
 */
int devices_deny (const char *group, const char *text);

/* How many programs for devices a group has, beside those of groups above it.
 *   -1 and errno: this process may not ask, or the kernel cannot say
 */
int devices_programs (const char *group);

#endif
