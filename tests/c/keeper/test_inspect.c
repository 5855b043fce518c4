/* Inspects a copy of a program or script (first argument) after many random
 * changes of its first bytes, and after every truncation there: each is of
 * some kind, and nothing worse. Built with sanitizers.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "start/inspect.h"

#define ROUNDS 3000
#define HEAD 1024

static uint64_t state = 88172645463325252u;

static uint64_t chance (void)           /* xorshift64 */
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void inspect (const char *path)
{
    struct inspect_fault fault;
    bool takes_preload;

    if (!inspect_program (path, &takes_preload, &fault)
        && strnlen (fault.path, sizeof (fault.path)) == sizeof (fault.path))
        exit (2);
    inspect_missing (path, &fault);
}

int main (int argc, char **argv)
{
    static char whole[HEAD], bytes[HEAD];
    int fd = argc == 2 ? open (argv[1], O_RDWR) : -1;
    ssize_t n = fd < 0 ? -1 : read (fd, whole, sizeof (whole));

    if (n <= 0)
        return 1;
    inspect (argv[1]);
    for (int i = 0; i < ROUNDS; i++) {
        memcpy (bytes, whole, (size_t) n);
        for (uint64_t changes = 1 + chance () % 8; changes > 0; changes--)
            bytes[chance () % (uint64_t) n] =
                (char) (chance () % 3 ? chance () : 255);
        if (pwrite (fd, bytes, (size_t) n, 0) != n)
            return 3;
        inspect (argv[1]);
    }
    if (pwrite (fd, whole, (size_t) n, 0) != n)
        return 3;
    while (n > 0) {
        if (ftruncate (fd, --n) != 0)
            return 4;
        inspect (argv[1]);
    }
    return 0;
}
