/* A static program: it has no dynamic loader, so yod holds it at its entry by
 * tracing it, and lets go of it before it runs.
 *
 *     cc -static -o static static.c && yod -sz 4 ./static
 */
#include <stdio.h>
#include <string.h>

int main (void)
{
    char line[256];
    FILE *status = fopen ("/proc/self/status", "r");

    while (status && fgets (line, sizeof (line), status))
        if (strncmp (line, "TracerPid:", 10) == 0)
            fputs (line, stdout);
    return 0;
}
