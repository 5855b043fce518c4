#include "ptl_shared.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ptl_end.h"
#include "ptl_ends.h"
#include "ptl_env.h"
#include "ptl_handle.h"
#include "ptl_job.h"
#include "ptl_map.h"
#include "ptl_ni.h"
#include "ptl_room.h"
#include "ptl_wait.h"

#define LOOPBACK 0x7f000001u
#define UNSEEN                                                          \
    "yod did not see that this program needs Portals (a script starts " \
    "it?): say yod --with-portals"
#define RANK_CONNECT_MS 60000 /* it may start late; a dead one refuses */

static struct ptl_end *shared;
static struct ptl_job job;
static int job_is = PTL_NO_INIT; /* what ptl_job_read said */

/* Read the settings of ranks and of other programs. False: one makes no
 * sense. */
static bool choose (struct ptlx_config *config)
{
    if (!ptl_env_read ())
        return false;
    config->is_local = ptl_env ()->is_local;
    config->no_memory = ptl_env ()->no_memory;
    config->integrity = ptl_env ()->is_sealed ? PTLX_INTEGRITY_REQUIRED
                                              : PTLX_INTEGRITY_OFF;
    return true;
}

/* Make the endpoint of a rank, whose id the others know already. */
static int make_rank (ptl_pid_t pid)
{
    struct ptlx_config config = {
        .listen_fd = job.listen_fd,
        .listen_nid = job.self.phys.nid,
        .advertise_nid = job.self.phys.nid,
        .uid = job.key.uid,
        .connect_timeout_ms = RANK_CONNECT_MS,
    };
    int rc;

    if (pid != PTL_PID_ANY && pid != job.self.phys.pid)
        return PTL_PID_IN_USE;
    if (!choose (&config))
        return PTL_FAIL;
    if ((rc = ptl_ends_make (&config, &shared)) != PTL_OK)
        return rc;
    shared->default_key = job.key;
    shared->self.pid = job.self.phys.pid;
    shared->self.kind = PTLX_KEY_JOB;
    shared->self.job_id = job.key.job_id;
    return PTL_OK;
}

/* A rank of a job on several nodes that yod did not see to need Portals, and
 * that has no other key, would wait for ever: nobody could reach it. Refuse
 * instead. */
static bool is_cut_off (void)
{
    const char *size = getenv ("YOD_SIZE");
    const char *here = getenv ("YOD_LOCAL_SIZE");

    if (!size || !here || strcmp (size, here) == 0 || getenv ("PTL_KEY_FILE"))
        return false;
    fputs ("libportals: " UNSEEN "\n", stderr);
    errno = ENOKEY;
    return true;
}

void ptl_shared_lacks_map (void)
{
    static bool has_said;

    if (has_said || job_is != PTL_IGNORED || !getenv ("YOD_SIZE"))
        return;
    has_said = true;
    fputs ("libportals: there is no map of the ranks, as " UNSEEN
           ", or PtlSetMap\n",
           stderr);
}

static int make_alone (ptl_pid_t pid)
{
    struct ptlx_config config = { .listen_nid = LOOPBACK, .uid = getuid () };
    uint8_t key[PTLX_KEY_BYTES];
    bool has_key;
    int rc;

    if (!choose (&config) || is_cut_off ()
        || !ptl_env_listen (&config.listen_nid)
        || !ptl_env_key (key, &has_key))
        return PTL_FAIL;
    config.partition_key = has_key ? key : NULL;
    config.listen_pid = pid == PTL_PID_ANY ? 0 : pid;
    rc = ptl_ends_make (&config, &shared);
    explicit_bzero (key, sizeof (key));
    if (rc == PTL_FAIL && errno == EADDRNOTAVAIL) {
        ptl_env_refuse ("PTL_LISTEN", "this host does not have that address");
        errno = EADDRNOTAVAIL;
    }
    return rc;
}

static int make (ptl_pid_t pid)
{
    int rc = PTL_OK;

    if (job_is == PTL_NO_INIT)
        job_is = ptl_job_read (&job);
    if (job_is == PTL_OK)
        rc = make_rank (pid);
    else if (job_is == PTL_IGNORED)
        rc = make_alone (pid);
    else if ((rc = job_is) == PTL_FAIL)
        ptl_env_refuse ("YOD_PORTALS", job.why);
    if (rc == PTL_OK)
        ptl_progress_start (shared);
    return rc;
}

/* ---- users ---- */

static bool is_last (void)
{
    int n = 0;

    for (int kind = 0; kind < PTL_KINDS; kind++)
        n += shared->nis[kind] != NULL;
    return n <= 1;
}

static void end_unused (void)
{
    for (int kind = 0; kind < PTL_KINDS; kind++)
        if (shared->nis[kind])
            return;
    ptl_progress_stop ();
    ptl_end_free (shared, 0);
    shared = NULL;
}

/* A rank's logical interface has the job's map from the beginning. */
static int give_map (struct ptl_ni *ni)
{
    if (job_is != PTL_OK || !ptl_ni_is_logical (ni))
        return PTL_OK;
    ni->map = ptl_map_alloc (job.map, job.size);
    return ni->map ? PTL_OK : PTL_NO_SPACE;
}

static int told (int rc)
{
    if (rc == PTL_FAIL && (errno == EMFILE || errno == ENFILE))
        ptl_room_complain ();
    return rc;
}

int ptl_shared_open (int kind, ptl_pid_t pid, const ptl_ni_limits_t *desired,
                     struct ptl_ni **nip)
{
    int rc = PTL_OK;

    if (!shared)
        rc = make (pid);
    else if (pid != PTL_PID_ANY && pid != shared->self.pid)
        rc = PTL_PID_IN_USE;
    if (told (rc) != PTL_OK)
        return rc;
    if ((*nip = shared->nis[kind])) {
        (*nip)->users++;
        return PTL_OK;
    }
    if ((rc = ptl_ni_alloc (shared, kind, desired, nip)) == PTL_OK
        && ((rc = give_map (*nip)) != PTL_OK
            || (rc = ptl_handle_add (PTL_HANDLE_NI, *nip, &(*nip)->handle))
                   != PTL_OK))
        ptl_ni_free (*nip);
    if (told (rc) != PTL_OK)
        end_unused ();
    return rc;
}

struct ptl_end *ptl_shared_close (struct ptl_ni *ni)
{
    struct ptl_end *its = ni->end;

    if (--ni->users > 0)
        return its;
    if (its != shared || is_last ()) {
        if (its == shared)
            ptl_shared_stop ();
        ptl_end_free (its, PTL_FLUSH_MS);
        return NULL;
    }
    ptl_ni_cancel (ni);
    ptl_end_detach (its, ni);
    ptl_ni_free (ni);
    ptl_wait_wake (its); /* who waits for what it had */
    return its;
}

bool ptl_shared_is (const struct ptl_end *end)
{
    return end == shared;
}

bool ptl_shared_is_ending (void)
{
    return shared && shared->is_ending;
}

void ptl_shared_stop (void)
{
    ptl_progress_stop ();
    if (shared)
        ptl_wait_end (shared);
    shared = NULL;
}
