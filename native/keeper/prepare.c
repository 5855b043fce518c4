#include "prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "devices/devices.h"
#include "devices/fence.h"
#include "group.h"
#include "remote.h"

#define EXIT_NONSENSE 64
#define EXIT_CAN_NOT 70
#define NICER_BY 5

__attribute__ ((format (printf, 3, 4)))
_Noreturn static void give_up (struct keeper *k, int exit_status,
                               const char *format, ...)
{
    char text[REPORT_TEXT_BYTES];
    va_list arguments;

    va_start (arguments, format);
    vsnprintf (text, sizeof (text), format, arguments);
    va_end (arguments);
    report_set_text (report_add (&k->box, REPORT_FAILED, 0), text);
    if (!report_flush (&k->box) || k->box.is_broken)
        dprintf (2, "yod-keeper: %s\n", text);
    exit (exit_status);
}

static void close_from (unsigned first)
{
    if (syscall (SYS_close_range, first, ~0u, 0) == 0)
        return;
    for (unsigned fd = first; fd < 65536; fd++)     /* Linux before 5.9 */
        close ((int) fd);
}

/* Signals that the PCT's parents ignored (nohup, a shell's `&`) or that Python
 * ignores have their default action in the ranks; with an ignored SIGCHLD the
 * kernel would reap our children. The call is raw because libc refuses the two
 * signals that it keeps for itself; zeros are the default action. */
static int take_signals (void)
{
    static const uint64_t default_action[8];
    sigset_t all, ours;

    for (int signo = 1; signo < NSIG; signo++)
        syscall (SYS_rt_sigaction, signo, default_action, NULL,
                 sizeof (default_action[0]));
    sigfillset (&all);
    sigprocmask (SIG_SETMASK, &all, NULL);
    sigemptyset (&ours);
    sigaddset (&ours, SIGCHLD);
    sigaddset (&ours, SIGTERM);
    sigaddset (&ours, SIGINT);
    sigaddset (&ours, SIGHUP);
    return signalfd (-1, &ours, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* Ranks may fill the processors; the keeper must still get one to stop them.
 * Only root can raise its priority. */
static void take_priority (struct keeper *k)
{
    k->starter.niceness = getpriority (PRIO_PROCESS, 0);
    if (geteuid () == 0)
        setpriority (PRIO_PROCESS, 0, k->starter.niceness - NICER_BY);
}

/* Only root may load a program. */
static void deny_devices (struct keeper *k)
{
    const struct spec *spec = k->spec;
    char problem[REPORT_TEXT_BYTES], text[REPORT_TEXT_BYTES];
    int error;

    if (devices_deny (spec->group, spec->denied) == 0)
        return;
    error = errno;
    snprintf (text, sizeof (text), "%s", strerror (error));
    if (error == EPERM || error == EACCES) {
        if (fence_ask (spec->group, spec->denied, problem) == 0)
            return;
        snprintf (text, sizeof (text), "%.40s; root's pct: %.120s",
                  strerror (error), problem);
    }
    report_set_text (report_add (&k->box, REPORT_DEVICES_OPEN, 0), text);
}

/* Before the change of user: only root may write to its files. */
static void take_group (struct keeper *k)
{
    k->starter.group_fd = group_enter (k->spec->group);
    if (k->starter.group_fd == GROUP_CLOSED)
        give_up (k, EXIT_CAN_NOT, "cannot enter the control group %s: %s",
                 k->spec->group, strerror (errno));
    if (*k->spec->group && *k->spec->denied)
        deny_devices (k);
}

/* Before the change of user, who may not mount. */
static void take_directories (struct keeper *k)
{
    char problem[REPORT_TEXT_BYTES];

    if (remote_mount (k->spec, &k->box, problem) != 0)
        give_up (k, EXIT_CAN_NOT, "%s", problem);
}

/* Become the owner for good. Only a keeper started by root has to. */
static void take_owner (struct keeper *k)
{
    const struct spec *spec = k->spec;

    if (geteuid () == 0 && (spec->uid != 0 || spec->gid != getgid ())) {
        if (setgroups (spec->n_groups, spec->groups) != 0
            || setresgid (spec->gid, spec->gid, spec->gid) != 0
            || setresuid (spec->uid, spec->uid, spec->uid) != 0)
            give_up (k, EXIT_CAN_NOT, "cannot become uid %u gid %u: %s",
                     spec->uid, spec->gid, strerror (errno));
    }
    if (getuid () != spec->uid || geteuid () != spec->uid)
        give_up (k, EXIT_CAN_NOT, "cannot become uid %u: this is uid %u",
                 spec->uid, geteuid ());
}

static void take_parent (struct keeper *k)
{
    /* Set after the change of uid, which clears it. If the parent has died
     * before, nothing has been started: just leave. */
    prctl (PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid () != k->spec->parent)
        give_up (k, EXIT_CAN_NOT, "the parent is process %d, not %d",
                 getppid (), k->spec->parent);
}

void prepare_keeper (struct keeper *k)
{
    const char *problem;

    k->box.socket = CONTROL_FD;
    close_from (PORTALS_FD + 1);
    for (int fd = 0; fd < 3; fd++)      /* ours must never be 0, 1 or 2 */
        if (fcntl (fd, F_GETFD) < 0)
            open ("/dev/null", O_RDWR);
    fcntl (CONTROL_FD, F_SETFD, FD_CLOEXEC);
    if ((problem = spec_read (SPEC_FD, &k->spec)))
        give_up (k, EXIT_NONSENSE, "specification: %s", problem);
    close (SPEC_FD);
    if (!k->spec->wants_portals)
        close (PORTALS_FD);
    else if (fcntl (PORTALS_FD, F_SETFD, FD_CLOEXEC) != 0)
        give_up (k, EXIT_CAN_NOT, "no file for the job's map");
    if ((k->signal_fd = take_signals ()) < 0)
        give_up (k, EXIT_CAN_NOT, "signals: %s", strerror (errno));
    if (prctl (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        give_up (k, EXIT_CAN_NOT, "subreaper: %s", strerror (errno));
    take_priority (k);
    take_group (k);
    take_directories (k);
    take_owner (k);
    take_parent (k);
    umask (k->spec->umask);
    if ((problem = start_prepare (&k->starter, k->spec)))
        give_up (k, EXIT_CAN_NOT, "%s: %s", problem, strerror (errno));
    k->ranks = calloc (k->spec->n_ranks, sizeof (*k->ranks));
    if (!k->ranks)
        give_up (k, EXIT_CAN_NOT, "no memory");
    k->kill_wait_ms = k->spec->has_tracers ? KILL_WAIT_MAX_MS
                                           : KILL_WAIT_MIN_MS;
}
