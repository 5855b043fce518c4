/* A library with a constructor: user code that runs before main. */
#include <unistd.h>

__attribute__ ((constructor)) static void construct (void)
{
    if (write (1, "library constructor\n", 20) < 0)
        _exit (1);
}

int library_value (void)
{
    return 7;
}
