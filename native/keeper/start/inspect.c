/* The kernel reads 256 bytes of a script's first line and follows at most five
 * interpreters. Programs that we cannot judge (a binfmt_misc program, one that
 * may be executed and not read) are held by tracing, which works for every
 * program. The hold library is preloaded only where the program certainly has
 * our own dynamic loader. */
#include "inspect.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MAX_DEPTH 5
#define SCRIPT_LINE_BYTES 256
#define HEAD_BYTES 4096

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#define OWN_LOADER "ld-linux-x86-64.so.2"
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#define OWN_LOADER "ld-linux-aarch64.so.1"
#else
#error "x86-64 and arm64 only"
#endif

/* The first bytes of the file that is being looked at. */
struct head {
    char path[INSPECT_PATH_BYTES];
    char bytes[HEAD_BYTES];
    size_t n;
    int fd;                             /* -1: not readable by us */
    struct stat file;
};

static void close_head (struct head *head)
{
    if (head->fd >= 0)
        close (head->fd);
    head->fd = -1;
}

static int open_head (struct head *head)
{
    ssize_t n;

    head->n = 0;
    head->fd = -1;
    if (stat (head->path, &head->file) != 0)
        return errno;
    if (!S_ISREG (head->file.st_mode))
        return EACCES;                  /* what exec says */
    if ((head->fd = open (head->path, O_RDONLY | O_CLOEXEC | O_NOCTTY)) < 0)
        return 0;
    if ((n = pread (head->fd, head->bytes, HEAD_BYTES, 0)) > 0)
        head->n = (size_t) n;
    return 0;
}

/* Replace the path by the interpreter that a script names. */
static bool follow_script (struct head *head)
{
    char *end = head->bytes + (head->n < SCRIPT_LINE_BYTES
                               ? head->n : SCRIPT_LINE_BYTES);
    char *start = head->bytes + 2, *stop;

    if (head->n < 3 || memcmp (head->bytes, "#!", 2) != 0)
        return false;
    while (start < end && (*start == ' ' || *start == '\t'))
        start++;
    for (stop = start; stop < end; stop++)
        if (!*stop || strchr (" \t\n", *stop))   /* not \r, as the kernel */
            break;
    if (stop == start)
        return false;
    memcpy (head->path, start, (size_t) (stop - start));
    head->path[stop - start] = 0;
    return true;
}

/* Copy the loader that an ELF file of our class and machine asks for;
 * "" when there is none. */
static bool find_loader (const struct head *head, char *loader, size_t room)
{
    Elf64_Ehdr elf;
    Elf64_Phdr entry;
    ssize_t n;

    loader[0] = 0;
    if (head->n < sizeof (elf))
        return false;
    memcpy (&elf, head->bytes, sizeof (elf));
    if (memcmp (elf.e_ident, ELFMAG, SELFMAG) != 0
        || elf.e_ident[EI_CLASS] != ELFCLASS64
        || elf.e_ident[EI_DATA] != ELFDATA2LSB
        || elf.e_machine != OWN_MACHINE
        || elf.e_phentsize != sizeof (entry))
        return false;
    for (unsigned i = 0; i < elf.e_phnum; i++) {
        off_t at = (off_t) (elf.e_phoff + i * sizeof (entry));

        if (pread (head->fd, &entry, sizeof (entry), at) != sizeof (entry))
            return false;
        if (entry.p_type != PT_INTERP)
            continue;
        if (entry.p_filesz < 2 || entry.p_filesz > room)
            return false;
        n = pread (head->fd, loader, entry.p_filesz, (off_t) entry.p_offset);
        if (n != (ssize_t) entry.p_filesz || loader[n - 1] != 0) {
            loader[0] = 0;
            return false;
        }
        return true;
    }
    return false;
}

/* The hold library needs nothing but the loader's protocol, so any glibc
 * loader of that name will do, wherever a distribution keeps it. */
static bool is_own_loader (const char *loader)
{
    const char *slash = strrchr (loader, '/');

    return strcmp (slash ? slash + 1 : loader, OWN_LOADER) == 0;
}

/* A program that would gain rights (setuid, capabilities) cannot be held: it
 * could not be traced, preloaded, or killed with its parent. */
static enum step gains_rights (const struct head *head)
{
    struct statvfs mount;
    mode_t mode = head->file.st_mode;
    bool gains_uid = mode & S_ISUID && head->file.st_uid != geteuid ();
    bool gains_gid = (mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP)
                     && head->file.st_gid != getegid ();

    if (!gains_uid && !gains_gid
        && (geteuid () == 0
            || getxattr (head->path, "security.capability", NULL, 0) <= 0))
        return 0;
    if (statvfs (head->path, &mount) == 0 && mount.f_flag & ST_NOSUID)
        return 0;
    return gains_uid || gains_gid ? STEP_SETUID_REFUSED
                                  : STEP_CAPABILITY_REFUSED;
}

static void copy_path (char *to, const char *path)
{
    size_t n = strnlen (path, INSPECT_PATH_BYTES - 1);

    memcpy (to, path, n);
    to[n] = 0;
}

static bool fail (struct inspect_fault *fault, enum step step, int error,
                  const char *path)
{
    fault->step = step;
    fault->error = error;
    copy_path (fault->path, path);
    return false;
}

bool inspect_program (const char *path, bool *takes_preload,
                      struct inspect_fault *fault)
{
    struct head head;
    char loader[INSPECT_PATH_BYTES];
    enum step refused;
    int error;

    *takes_preload = false;
    memset (fault, 0, sizeof (*fault));
    if (strlen (path) >= sizeof (head.path))
        return fail (fault, STEP_OPEN, ENAMETOOLONG, path);
    copy_path (head.path, path);
    for (int depth = 0; depth <= MAX_DEPTH; depth++) {
        if ((error = open_head (&head)) != 0)
            return fail (fault, depth ? STEP_INTERPRETER : STEP_OPEN, error,
                         head.path);
        if (follow_script (&head)) {
            close_head (&head);
            continue;
        }
        refused = gains_rights (&head);
        if (head.fd >= 0 && find_loader (&head, loader, sizeof (loader)))
            *takes_preload = is_own_loader (loader);
        close_head (&head);
        return refused ? fail (fault, refused, EPERM, head.path) : true;
    }
    return fail (fault, STEP_INTERPRETER, ELOOP, head.path);
}

void inspect_missing (const char *path, struct inspect_fault *fault)
{
    struct head head;
    char loader[INSPECT_PATH_BYTES];

    copy_path (head.path, path);
    for (int depth = 0; depth <= MAX_DEPTH; depth++) {
        if (open_head (&head) != 0) {
            if (depth > 0)
                fail (fault, STEP_INTERPRETER, ENOENT, head.path);
            return;
        }
        if (follow_script (&head)) {
            close_head (&head);
            continue;
        }
        if (head.fd >= 0 && find_loader (&head, loader, sizeof (loader))
            && access (loader, F_OK) != 0)
            fail (fault, STEP_LOADER, ENOENT, loader);
        close_head (&head);
        return;
    }
}
