/* A 32-bit program without a libc: prints "main" and exits with 7. */
static int call (int number, int a, int b, int c)
{
    int result;

    __asm__ volatile ("int $0x80"
                      : "=a" (result)
                      : "a" (number), "b" (a), "c" (b), "d" (c)
                      : "memory");
    return result;
}

void _start (void)
{
    static const char text[] = "main\n";

    call (4, 1, (int) text, 5);
    call (1, 7, 0, 0);
}
