/* spawn - start N processes of a program at once and wait for them all.
 *
 * This is the kernel's share of a launch: no launcher can be faster.
 *
 *     spawn N PROGRAM [ARGUMENT...]
 *
 * Exit status 0 if every process exited with 0, else 1.
 */

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

int main (int argc, char **argv)
{
    int status, failed = 0;
    long count, started;
    pid_t pid;

    if (argc < 3 || (count = strtol (argv[1], NULL, 10)) < 1) {
        fprintf (stderr, "usage: spawn N PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    for (started = 0; started < count; started++) {
        if (posix_spawnp (&pid, argv[2], NULL, NULL, argv + 2, environ) != 0) {
            perror (argv[2]);
            failed = 1;
            break;
        }
    }
    while (started > 0 && wait (&status) > 0) {
        started--;
        if (status != 0)
            failed = 1;
    }
    return failed;
}
