/* A PTL_* variable that makes no sense fails PtlNIInit (PTL_FAIL) with one line
 * on standard error: which variable, its value, and what to say instead. Each
 * value that makes sense is taken without a word. */
#include <fcntl.h>

#include "pair.h"
#include "said.h"

static int begin (void)
{
    ptl_handle_ni_t ni;
    int rc;

    CHECK (PtlInit () == PTL_OK);
    rc = PtlNIInit (PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL,
                    PTL_PID_ANY, NULL, NULL, &ni);
    PtlFini ();
    return rc;
}

static void refuses (const char *name, const char *value, const char *advice)
{
    char begins[256];
    const char *text;
    int rc;

    snprintf (begins, sizeof (begins), "libportals: %s=%s: ", name, value);
    CHECK (setenv (name, value, 1) == 0);
    said_begin ();
    rc = begin ();
    text = said_end ();
    CHECK (rc == PTL_FAIL);
    if (strncmp (text, begins, strlen (begins)) != 0
        || !strstr (text, advice))
        fprintf (stderr, "%s\n", text);
    CHECK (strncmp (text, begins, strlen (begins)) == 0);
    CHECK (strstr (text, advice));
    CHECK (is_one_line (text));
    CHECK (unsetenv (name) == 0);
}

static void takes (const char *name, const char *value)
{
    int rc;

    CHECK (setenv (name, value, 1) == 0);
    said_begin ();
    rc = begin ();
    CHECK (said_end ()[0] == '\0');
    CHECK (rc == PTL_OK);
    CHECK (unsetenv (name) == 0);
}

static void check_words (void)
{
    refuses ("PTL_TRANSPORT", "rdma", "shm, unix or tcp");
    refuses ("PTL_TRANSPORT", "", "shm, unix or tcp");
    takes ("PTL_TRANSPORT", "shm");
    takes ("PTL_TRANSPORT", "unix");
    takes ("PTL_TRANSPORT", "tcp");
    refuses ("PTL_INTEGRITY", "yes", "off or on");
    takes ("PTL_INTEGRITY", "on");
    takes ("PTL_INTEGRITY", "off");
    refuses ("PTL_PROGRESS", "threads", "thread or none");
    takes ("PTL_PROGRESS", "none");
    takes ("PTL_PROGRESS", "thread");
    refuses ("PTL_DEBUG", "1", "off or on");
    takes ("PTL_DEBUG", "on");
    takes ("PTL_DEBUG", "off");
}

static void check_numbers (void)
{
    refuses ("PTL_SPIN_US", "", "0 to 1000000");
    refuses ("PTL_SPIN_US", "fast", "0 to 1000000");
    refuses ("PTL_SPIN_US", "-1", "0 to 1000000");
    refuses ("PTL_SPIN_US", "50us", "0 to 1000000");
    refuses ("PTL_SPIN_US", "1000001", "0 to 1000000");
    refuses ("PTL_SPIN_US", "99999999999999999999", "0 to 1000000");
    takes ("PTL_SPIN_US", "0");
    takes ("PTL_SPIN_US", "1000000");
}

static void check_addresses (void)
{
    refuses ("PTL_LISTEN", "localhost", "IPv4 address");
    refuses ("PTL_LISTEN", "0.0.0.0", "IPv4 address");
    refuses ("PTL_LISTEN", "224.0.0.1", "IPv4 address");
    refuses ("PTL_LISTEN", "255.255.255.255", "IPv4 address");
    refuses ("PTL_LISTEN", "::1", "IPv4 address");
    refuses ("PTL_LISTEN", "192.0.2.1", "does not have");
    takes ("PTL_LISTEN", "127.0.0.2");
}

static void check_keys (void)
{
    struct pair pair;
    int fd;

    refuses ("PTL_KEY_FILE", "/nowhere/key", "No such file");
    refuses ("PTL_KEY_FILE", "/", "32 bytes");
    refuses ("PTL_KEY_FILE", "/dev/null", "shorter");
    pair_key (&pair);
    takes ("PTL_KEY_FILE", pair.key);
    CHECK ((fd = open (pair.key, O_WRONLY | O_APPEND)) >= 0);
    CHECK (write (fd, "\n", 1) == 1);
    close (fd);
    refuses ("PTL_KEY_FILE", pair.key, "longer");
    unlink (pair.key);
}

/* A value cannot make a line of its own, or a long one. */
static void check_lines (void)
{
    char value[4096];
    const char *text;

    CHECK (setenv ("PTL_TRANSPORT", "tcp\nshm", 1) == 0);
    said_begin ();
    CHECK (begin () == PTL_FAIL);
    CHECK (is_one_line (said_end ()));
    memset (value, 'x', sizeof (value) - 1);
    value[sizeof (value) - 1] = '\0';
    CHECK (setenv ("PTL_TRANSPORT", value, 1) == 0);
    said_begin ();
    CHECK (begin () == PTL_FAIL);
    text = said_end ();
    CHECK (is_one_line (text) && strlen (text) < 200);
    CHECK (unsetenv ("PTL_TRANSPORT") == 0);
}

int main (void)
{
    check_words ();
    check_numbers ();
    check_addresses ();
    check_keys ();
    check_lines ();
    return 0;
}
