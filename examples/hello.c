/* The smallest parallel program: every rank prints its rank and its node.
 *
 *     cc -o hello hello.c && yod -sz 4 ./hello
 */
#include <stdio.h>
#include <stdlib.h>

static const char *variable (const char *name)
{
    const char *value = getenv (name);

    return value ? value : "?";
}

int main (void)
{
    printf ("hello from rank %s of %s on %s\n", variable ("YOD_RANK"),
            variable ("YOD_SIZE"), variable ("YOD_NODE_NAME"));
    return 0;
}
