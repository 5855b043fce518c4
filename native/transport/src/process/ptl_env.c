#include "ptl_env.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SPIN_US 50          /* half of what a blocking wake-up costs */
#define SPIN_US_MAX 1000000 /* waits that have a processor alone */
#define SHOWN_BYTES 80      /* of a value */
#define TABLE_NIDS (1u << 24) /* nids below number a table's addresses */

static struct ptl_env env;
static bool is_read;

/* ---- saying what is wrong ---- */

/* Write one line, whatever bytes the value has. */
static void print (char shown[SHOWN_BYTES], const char *value)
{
    size_t i;

    for (i = 0; i < SHOWN_BYTES - 1 && value[i]; i++)
        shown[i] = iscntrl ((unsigned char)value[i]) ? '?' : value[i];
    shown[i] = '\0';
}

void ptl_env_refuse (const char *name, const char *why)
{
    const char *value = getenv (name);
    char shown[SHOWN_BYTES];

    print (shown, value ? value : "");
    fprintf (stderr, "libportals: %s=%s: %s\n", name, shown, why);
    errno = EINVAL;
}

/* ---- one variable ---- */

/* Which of the words it is; the first where it is not set. -1: none. */
static int choose (const char *name, const char *const words[3])
{
    const char *value = getenv (name);
    char why[SHOWN_BYTES];

    if (!value)
        return 0;
    for (int i = 0; i < 3 && words[i]; i++)
        if (strcmp (value, words[i]) == 0)
            return i;
    snprintf (why, sizeof (why), words[2] ? "say %s, %s or %s" : "say %s or %s",
              words[0], words[1], words[2]);
    ptl_env_refuse (name, why);
    return -1;
}

static bool read_transport (void)
{
    enum { SHM, UNIX, TCP };
    static const char *const words[3] = { "shm", "unix", "tcp" };
    int chosen = choose ("PTL_TRANSPORT", words);

    env.is_local = chosen != TCP;
    env.no_memory = chosen == UNIX;
    return chosen >= 0;
}

static bool read_switch (const char *name, bool *is_on)
{
    static const char *const words[3] = { "off", "on" };
    int chosen = choose (name, words);

    *is_on = chosen == 1;
    return chosen >= 0;
}

static bool read_progress (void)
{
    static const char *const words[3] = { "thread", "none" };
    int chosen = choose ("PTL_PROGRESS", words);

    env.has_thread = chosen != 1;
    return chosen >= 0;
}

static bool read_spin (void)
{
    const char *value = getenv ("PTL_SPIN_US");
    char *end;
    long us;

    env.spin_ns = SPIN_US * 1000;
    if (!value)
        return true;
    errno = 0;
    us = strtol (value, &end, 10);
    if (!isdigit ((unsigned char)*value) || *end || errno != 0
        || us > SPIN_US_MAX) {
        ptl_env_refuse ("PTL_SPIN_US", "say microseconds, 0 to 1000000");
        return false;
    }
    env.spin_ns = us * 1000;
    return true;
}

/* ---- all ---- */

bool ptl_env_read (void)
{
    bool is_good = read_transport ();

    /* Each check prints its own message. */
    is_good &= read_switch ("PTL_INTEGRITY", &env.is_sealed);
    is_good &= read_switch ("PTL_DEBUG", &env.tells_losses);
    is_good &= read_progress ();
    is_good &= read_spin ();
    is_read = true;
    return is_good;
}

const struct ptl_env *ptl_env (void)
{
    if (!is_read)
        ptl_env_read ();
    return &env;
}

bool ptl_env_listen (uint32_t *nid)
{
    const char *value = getenv ("PTL_LISTEN");
    struct in_addr address = { 0 };
    uint32_t wanted;

    if (!value)
        return true;
    if (inet_pton (AF_INET, value, &address) == 1
        && (wanted = ntohl (address.s_addr)) >= TABLE_NIDS
        && wanted < INADDR_UNSPEC_GROUP) {
        *nid = wanted;
        return true;
    }
    ptl_env_refuse ("PTL_LISTEN",
                    "say an IPv4 address of this host, as 127.0.0.1");
    return false;
}

/* The bytes of a file, at most `most`; -1: errno. */
static ssize_t read_file (const char *path, void *bytes, size_t most)
{
    int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), error;
    ssize_t n;

    if (fd < 0)
        return -1;
    n = read (fd, bytes, most);
    error = errno;
    close (fd);
    errno = error;
    return n;
}

bool ptl_env_key (uint8_t key[PTLX_KEY_BYTES], bool *is_set)
{
    const char *path = getenv ("PTL_KEY_FILE");
    uint8_t bytes[PTLX_KEY_BYTES + 1];
    char why[SHOWN_BYTES * 2];
    ssize_t n;
    int error;

    *is_set = path != NULL;
    if (!path)
        return true;
    n = read_file (path, bytes, sizeof (bytes));
    error = n < 0 ? errno : EINVAL;
    if (n == PTLX_KEY_BYTES)
        memcpy (key, bytes, PTLX_KEY_BYTES);
    explicit_bzero (bytes, sizeof (bytes));
    if (n == PTLX_KEY_BYTES)
        return true;
    snprintf (why, sizeof (why),
              "%s: name a file of %d bytes that all processes share",
              n < 0                    ? strerror (error)
              : n > PTLX_KEY_BYTES     ? "it is longer than a key"
                                       : "it is shorter than a key",
              PTLX_KEY_BYTES);
    ptl_env_refuse ("PTL_KEY_FILE", why);
    errno = error;
    return false;
}
