#include "keepers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../keeper/descend.h"
#include "../keeper/main.h"

#define FIRST_FREE_FD 6                 /* above those that a keeper is given */

extern char **environ;

/* --- starting one -------------------------------------------------------- */

/* The limits that a PCT raises for itself, and so for its keepers: many ranks
 * need many descriptors, and a file is shared with them. Ranks get theirs by
 * the specification. */
static void raise_limits (void)
{
    static const int raised[] = { RLIMIT_NOFILE, RLIMIT_FSIZE };
    struct rlimit limit;

    for (size_t i = 0; i < sizeof (raised) / sizeof (raised[0]); i++)
        if (getrlimit (raised[i], &limit) == 0) {
            limit.rlim_cur = limit.rlim_max;
            setrlimit (raised[i], &limit);
        }
}

/* In the child: nothing but the keeper's descriptors, whose other ends belong
 * to the PCT. All signals that we take are blocked until it takes its own. */
_Noreturn static void become_keeper (const int fds[], size_t n_fds)
{
    int moved[PORTALS_FD + 1 - CONTROL_FD], null;

    setpgid (0, 0);                     /* Ctrl-C does not reach it */
    for (size_t i = 0; i < n_fds; i++) {
        moved[i] = fcntl (fds[i], F_DUPFD_CLOEXEC, FIRST_FREE_FD);
        if (moved[i] < 0)
            _exit (70);
    }
    null = open ("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2 (null, 0);
        dup2 (null, 1);
    }
    for (int fd = CONTROL_FD; fd <= PORTALS_FD; fd++)
        close (fd);
    for (size_t i = 0; i < n_fds; i++)
        if (dup2 (moved[i], CONTROL_FD + (int) i) < 0)
            _exit (70);
    raise_limits ();
    prctl (PR_SET_NAME, "yod-keeper", 0, 0, 0);
    environ = NULL;
    keeper_main ();
}

/* Children that this process had before it was yod are nobody's orphans. */
static void begin (struct keepers *keepers)
{
    if (keepers->has_begun)
        return;
    keepers->has_begun = true;
    keepers->n_foreign = descend_list (getpid (), keepers->spared,
                                       KEEPERS_FOREIGN_MAX);
    prctl (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static void add (struct keepers *keepers, uint32_t id, pid_t unix_pid)
{
    size_t n = keepers->count++;

    keepers->ids[n] = id;
    memmove (keepers->spared + n + 1, keepers->spared + n,
             keepers->n_foreign * sizeof (pid_t));
    keepers->spared[n] = unix_pid;
}

bool keepers_start (struct keepers *keepers, uint32_t id, const int fds[],
                    size_t n_fds, struct outbox *box)
{
    pid_t unix_pid = -1;
    int problem = EAGAIN;

    if (id <= keepers->last)
        return false;
    keepers->last = id;
    begin (keepers);
    if (keepers->count < KEEPERS_MAX) {
        unix_pid = fork ();
        problem = errno;
    }
    if (unix_pid == 0)
        become_keeper (fds, n_fds);
    for (size_t i = 0; i < n_fds; i++)
        close (fds[i]);
    if (unix_pid > 0) {
        setpgid (unix_pid, unix_pid);
        add (keepers, id, unix_pid);
    }
    outbox_add_number (box, CLIENT_STARTED, id,
                       (uint32_t) (unix_pid > 0 ? unix_pid : -problem));
    return true;
}

/* --- its life and end ---------------------------------------------------- */

void keepers_continue (const struct keepers *keepers, uint32_t id)
{
    for (size_t i = 0; i < keepers->count; i++)
        if (keepers->ids[i] == id)
            kill (keepers->spared[i], SIGCONT);
}

static void forget (struct keepers *keepers, pid_t unix_pid, int wait_status,
                    struct outbox *box)
{
    size_t n = keepers->count + keepers->n_foreign, i = 0;

    while (i < n && keepers->spared[i] != unix_pid)
        i++;
    if (i == n)
        return;                         /* an orphan */
    memmove (keepers->spared + i, keepers->spared + i + 1,
             (n - i - 1) * sizeof (pid_t));
    if (i >= keepers->count) {
        keepers->n_foreign--;
        return;
    }
    outbox_add_number (box, CLIENT_ENDED, keepers->ids[i],
                       (uint32_t) wait_status);
    memmove (keepers->ids + i, keepers->ids + i + 1,
             (keepers->count - i - 1) * sizeof (keepers->ids[0]));
    keepers->count--;
}

void keepers_reap (struct keepers *keepers, struct outbox *box)
{
    int wait_status;
    pid_t unix_pid;

    while (outbox_has_room (box)
           && (unix_pid = waitpid (-1, &wait_status, WNOHANG)) > 0)
        forget (keepers, unix_pid, wait_status, box);
}

void keepers_end (const struct keepers *keepers)
{
    for (size_t i = 0; i < keepers->count; i++) {
        kill (keepers->spared[i], SIGTERM);
        kill (keepers->spared[i], SIGCONT);
    }
}

size_t keepers_kill (const struct keepers *keepers)
{
    return descend_kill (keepers->spared + keepers->count,
                         keepers->n_foreign);
}

/* --- orphans ------------------------------------------------------------- */

bool keepers_kill_orphans (struct keepers *keepers, uint32_t token,
                           int64_t now)
{
    if (keepers->n_tokens == KEEPERS_TOKENS_MAX)
        return false;
    keepers->tokens[keepers->n_tokens++] = token;
    if (keepers->kill_at == 0) {
        keepers->kill_wait_ms = KILL_WAIT_FIRST_MS;
        keepers->kill_at = now;
    }
    return true;
}

void keepers_pass (struct keepers *keepers, struct outbox *box, int64_t now)
{
    if (keepers->kill_at == 0 || now < keepers->kill_at)
        return;
    keepers_reap (keepers, box);
    if (keepers->has_begun
        && descend_kill (keepers->spared,
                         keepers->count + keepers->n_foreign) > 0) {
        keepers->kill_at = now + keepers->kill_wait_ms;
        if (keepers->kill_wait_ms < KILL_WAIT_LAST_MS)
            keepers->kill_wait_ms *= 2;
        return;
    }
    for (size_t i = 0; i < keepers->n_tokens; i++)
        outbox_add (box, CLIENT_ORPHANS_KILLED, keepers->tokens[i]);
    keepers->n_tokens = 0;
    keepers->kill_at = 0;
}
