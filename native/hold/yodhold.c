/* yodhold.c - the hold library: holds a program at the entry of user code,
 * and says at its exit which MPI library it had mapped.
 *
 * Preloaded into dynamic programs. It has no libc, because none is initialized
 * yet: raw system calls only.
 *
 * It holds while the loader relocates it: the resolver of an indirect function
 * is called then, when every library has been mapped and no constructor has
 * run. A constructor linked with -z initfirst is the second line: the loader
 * obeys one library of that kind only, the last that it meets, and before
 * glibc 2.34 that is libpthread.
 *
 * It first makes itself unseen: the environment array is edited in place, as
 * `main` and shells hold pointers into it that are older than anything that
 * unsetenv could change. Then it tells the keeper, and awaits one byte from
 * the go pipe; end of file means that the job is over before its start.
 *
 * Its destructor makes no system call: a program may have forbidden itself any
 * by then. The loader's list of libraries is read through dl_iterate_phdr, as
 * another thread may be closing one, and the answer is left in shared memory.
 */
#include <linux/mman.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "../keeper/message.h"

#define EXIT_NEVER_STARTED 127
#define ERROR_INTERRUPTED (-4)          /* EINTR */
#define PRELOAD "LD_PRELOAD="

#if defined(__x86_64__)

enum { CALL_READ = 0, CALL_WRITE = 1, CALL_CLOSE = 3, CALL_MMAP = 9,
       CALL_MADVISE = 28, CALL_EXIT_GROUP = 231, CALL_PPOLL = 271 };

static long call6 (long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__ ("r10") = d;
    register long r8 __asm__ ("r8") = e;
    register long r9 __asm__ ("r9") = f;
    long result;

    __asm__ volatile ("syscall"
                      : "=a" (result)
                      : "a" (number), "D" (a), "S" (b), "d" (c), "r" (r10),
                        "r" (r8), "r" (r9)
                      : "rcx", "r11", "memory");
    return result;
}

#elif defined(__aarch64__)

enum { CALL_READ = 63, CALL_WRITE = 64, CALL_CLOSE = 57, CALL_MMAP = 222,
       CALL_MADVISE = 233, CALL_EXIT_GROUP = 94, CALL_PPOLL = 73 };

static long call6 (long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__ ("x8") = number;
    register long x0 __asm__ ("x0") = a;
    register long x1 __asm__ ("x1") = b;
    register long x2 __asm__ ("x2") = c;
    register long x3 __asm__ ("x3") = d;
    register long x4 __asm__ ("x4") = e;
    register long x5 __asm__ ("x5") = f;

    __asm__ volatile ("svc 0"
                      : "+r" (x0)
                      : "r" (x8), "r" (x1), "r" (x2), "r" (x3), "r" (x4),
                        "r" (x5)
                      : "memory");
    return x0;
}

#else
#error "x86-64 and arm64 only"
#endif

static long call (long number, long a, long b, long c)
{
    return call6 (number, a, b, c, 0, 0, 0);
}

struct orders {
    unsigned report_fd, go_fd, index, path_bytes, claims_fd;
};

/* The rank's claim. The pointer lies on a page that is zeroed in a forked
 * child, so that the child's exit is not taken for the rank's. */
static char **own_claim;

/* The rest of `text` behind `start`, or NULL when it does not begin so. */
static char *after (char *text, const char *start)
{
    while (*start)
        if (*text++ != *start++)
            return NULL;
    return text;
}

static unsigned number (char **text)
{
    unsigned value = 0;

    while (**text >= '0' && **text <= '9')
        value = value * 10 + (unsigned) (*(*text)++ - '0');
    if (**text == ',')
        ++*text;
    return value;
}

static void remove_entry (char **entry)
{
    do
        entry[0] = entry[1];
    while (*entry++);
}

/* Volatile, here and below: the compiler must not call memset or memcpy. */
static void erase (char *text)
{
    for (volatile char *c = text; *c; c++)
        *c = 0;
}

static int take_orders (char **environment, struct orders *orders)
{
    char *text;

    for (; *environment; environment++) {
        if (!(text = after (*environment, START_VARIABLE)))
            continue;
        orders->report_fd = number (&text);
        orders->go_fd = number (&text);
        orders->index = number (&text);
        orders->path_bytes = number (&text);
        orders->claims_fd = number (&text);
        erase (*environment);
        remove_entry (environment);
        return 1;
    }
    return 0;
}

/* Restore the user's LD_PRELOAD: remove it, or keep what follows our path. The
 * keeper has changed the last variable of that name. */
static void restore_preload (char **environment, unsigned path_bytes)
{
    char **found = NULL, *value = NULL;
    volatile char *to;

    for (; *environment; environment++)
        if (after (*environment, PRELOAD)) {
            found = environment;
            value = after (*environment, PRELOAD);
        }
    if (!found)
        return;
    for (unsigned i = 0; i < path_bytes; i++)
        if (!value[i])
            return;
    if (!value[path_bytes]) {
        erase (*found);
        remove_entry (found);
        return;
    }
    to = value;
    for (char *from = value + path_bytes + 1; *from; from++)
        *to++ = *from;
    for (; *to; to++)
        *to = 0;
}

static void tell_held (const struct orders *orders)
{
    static struct message message;      /* zero, and not on the stack */

    message.kind = MESSAGE_HELD;
    message.index = orders->index;
    while (call (CALL_WRITE, orders->report_fd, (long) &message,
                 sizeof (message)) == ERROR_INTERRUPTED)
        ;
    call (CALL_CLOSE, orders->report_fd, 0, 0);
}

static int is_error (long result)
{
    return (unsigned long) result > -4096ul;
}

/* Not populated: memory is used only when a claim is written. */
static void map_claim (const struct orders *orders)
{
    long claim, page;

    if (!orders->claims_fd)
        return;
    claim = call6 (CALL_MMAP, 0, CLAIM_BYTES, PROT_READ | PROT_WRITE,
                   MAP_SHARED, orders->claims_fd,
                   (long) orders->index * CLAIM_STRIDE_BYTES);
    call (CALL_CLOSE, orders->claims_fd, 0, 0);
    page = call6 (CALL_MMAP, 0, sizeof (*own_claim), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (is_error (claim) || is_error (page)
        || is_error (call (CALL_MADVISE, page, sizeof (*own_claim),
                           MADV_WIPEONFORK)))
        return;                         /* Linux before 4.14 */
    own_claim = (char **) page;
    *own_claim = (char *) claim;
}

/* Readers of a pipe are woken one by the other, and would run on one after the
 * other on one processor. Those that poll are all woken by the keeper, which
 * spreads them. So poll first; the read then finds its byte. */
static void wait_for_go (const struct orders *orders)
{
    struct pollfd pipe = { .fd = (int) orders->go_fd, .events = POLLIN };
    char go;
    long n;

    call6 (CALL_PPOLL, (long) &pipe, 1, 0, 0, 0, 0);
    do
        n = call (CALL_READ, orders->go_fd, (long) &go, 1);
    while (n == ERROR_INTERRUPTED);
    if (n != 1)
        call (CALL_EXIT_GROUP, EXIT_NEVER_STARTED, 0, 0);
    call (CALL_CLOSE, orders->go_fd, 0, 0);
}

/* Run once: at the second call the variable is gone. */
static void hold (char **environment)
{
    struct orders orders;

    if (!take_orders (environment, &orders))
        return;
    restore_preload (environment, orders.path_bytes);
    tell_held (&orders);
    map_claim (&orders);
    wait_for_go (&orders);
}

__attribute__ ((constructor))
static void hold_in_constructor (int argc, char **argv, char **environment)
{
    (void) argc;
    (void) argv;
    if (environment)
        hold (environment);
}

#if __has_include (<gnu/libc-version.h>)        /* else no loader resolves */

#include <link.h>

extern int dl_iterate_phdr (int (*) (struct dl_phdr_info *, size_t, void *),
                            void *) __attribute__ ((weak));

/* Whether this is the library that has MPI_Init: not what wraps it for a
 * language, which never comes alone. The rule is in native/wire/KEEPER.md. */
static int is_mpi_library (char *path)
{
    static const char starts[][MPI_NAME_BYTES] = MPI_NAMES;
    char *name = path;

    for (char *c = path; *c; c++)
        if (*c == '/')
            name = c + 1;
    for (size_t i = 0; i < sizeof (starts) / sizeof (starts[0]); i++)
        if (after (name, starts[i]))
            return 1;
    return 0;
}

/* Copy a path; of one that is too long three dots and the end, which tells
 * more. */
static void write_claim (volatile char *claim, const char *path)
{
    size_t length = 0, n = 0;

    while (path[length])
        length++;
    if (length >= CLAIM_BYTES) {
        for (; n < 3; n++)
            claim[n] = '.';
        path += length - (CLAIM_BYTES - 1 - n);
    }
    while (*path)
        claim[n++] = *path++;
    claim[n] = 0;
}

static int claim_if_mpi (struct dl_phdr_info *library, size_t bytes,
                         void *claim)
{
    (void) bytes;
    if (!is_mpi_library ((char *) library->dlpi_name))
        return 0;
    write_claim (claim, library->dlpi_name);
    return 1;
}

__attribute__ ((destructor))
static void claim_at_exit (void)
{
    if (own_claim && *own_claim && dl_iterate_phdr)
        dl_iterate_phdr (claim_if_mpi, *own_claim);
}

/* Set by glibc's loader: the stack as the kernel made it, with argc, argv,
 * NULL, the environment, NULL. */
extern void *__libc_stack_end __attribute__ ((weak));

static void nothing (void)
{
}

__attribute__ ((used))
static void (*resolve (void)) (void)
{
    long *stack = &__libc_stack_end ? __libc_stack_end : NULL;

    if (stack)
        hold ((char **) stack + 1 + *stack + 1);
    return nothing;
}

static void anchor (void) __attribute__ ((ifunc ("resolve")));

/* A reference, so that the loader resolves the function. */
__attribute__ ((used)) static void (*anchor_pointer) (void) = anchor;

#endif
