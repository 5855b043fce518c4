/* User code in every place where it can run before main. */
#include <unistd.h>

#ifdef WITH_LIBRARY
int library_value (void);
#endif

static void say (const char *text, size_t n)
{
    if (write (1, text, n) < 0)
        _exit (1);
}

static void preinit (void)
{
    say ("preinit\n", 8);
}

__attribute__ ((section (".preinit_array"), used))
static void (*const preinit_entry) (void) = preinit;

__attribute__ ((constructor)) static void construct (void)
{
    say ("constructor\n", 12);
}

int main (void)
{
#ifdef WITH_LIBRARY
    if (library_value () != 7)
        return 1;
#endif
    say ("main\n", 5);
    return 0;
}
