/* Reads devices from its first argument and writes their program, which an
 * interpreter of its few instructions runs for each further argument, "type
 * major minor": prints 1 where it allows, 0 where it denies. Prints nothing for
 * a text that names no devices. Built with sanitizers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "devices/devices.h"

static uint64_t run (const struct devices_instruction *program, size_t length,
                     const uint32_t context[3])
{
    uint64_t registers[16] = { 0 };

    for (size_t at = 0; at < length; at++) {
        const struct devices_instruction *each = &program[at];
        uint64_t *to = &registers[each->registers & 15];

        switch (each->code) {
        case 0x61:
            *to = context[each->offset / 4];
            break;
        case 0x57:
            *to &= (uint64_t) each->value;
            break;
        case 0x15:
            if (*to == (uint64_t) each->value)
                at += (size_t) each->offset;
            break;
        case 0x55:
            if (*to != (uint64_t) each->value)
                at += (size_t) each->offset;
            break;
        case 0xb7:
            *to = (uint64_t) each->value;
            break;
        case 0x95:
            return registers[0];
        default:
            abort ();
        }
    }
    abort ();                           /* it has no end */
}

int main (int argc, char **argv)
{
    static struct devices_number denied[DEVICES_MAX];
    static struct devices_instruction
        program[DEVICES_INSTRUCTIONS (DEVICES_MAX)];
    int n = devices_read (argc > 1 ? argv[1] : "", denied);
    size_t length;

    if (n < 0)
        return 0;
    length = devices_program (denied, (size_t) n, program);
    if (length != DEVICES_INSTRUCTIONS (n))
        abort ();
    for (int i = 2; i < argc; i++) {
        uint32_t context[3];

        if (sscanf (argv[i], "%u %u %u", &context[0], &context[1], &context[2])
            != 3)
            abort ();
        context[0] |= 6u << 16;         /* read and write */
        printf ("%d", (int) run (program, length, context));
    }
    return 0;
}
