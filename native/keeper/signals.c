#include "signals.h"

#include <errno.h>
#include <signal.h>

#include "begin.h"
#include "clock.h"
#include "descend.h"
#include "reap.h"
#include "spread.h"

/* Note that we send a rank this signal, so that its end is told as ours. A
 * process that is already exiting does not die of it: its peers may see its
 * sockets close, and ask for the signal, before we can reap it. */
static void note_sent (struct rank *rank, int signo)
{
    if (signo != SIGSTOP && !descend_is_exiting (rank->unix_pid))
        rank->sent |= keeper_signal_bit (signo);
}

/* Send to the group of a rank; to its process alone while that has not yet made
 * its session. SIGCONT follows SIGTERM: a stopped process must run to end. */
static void send_to_group (pid_t unix_pid, int signo)
{
    if (kill (-unix_pid, signo) != 0 && errno == ESRCH)
        kill (unix_pid, signo);
    if (signo == SIGTERM)
        send_to_group (unix_pid, SIGCONT);
}

static bool is_alive (const struct keeper *k, size_t index)
{
    return k->ranks[index].unix_pid > 0
           && k->ranks[index].state != RANK_ENDED;
}

/* A shell at a terminal ignores SIGTERM: for it the terminal hangs up. */
static bool hang_up (struct keeper *k, size_t index)
{
    if (!(k->spec->ranks[index].flags & RANK_HAS_TERMINAL))
        return false;
    note_sent (&k->ranks[index], SIGHUP);
    send_to_group (k->ranks[index].unix_pid, SIGHUP);
    return true;
}

static void send_to_rank (const struct keeper *k, size_t index, int signo)
{
    pid_t unix_pid = k->ranks[index].unix_pid;

    if (spread_is_to_group (signo)
        || k->spec->ranks[index].flags & RANK_SIGNALS_GROUP)
        send_to_group (unix_pid, signo);
    else
        kill (unix_pid, signo);
}

static void stop_all (struct keeper *k)
{
    signal_ranks (k, ALL_RANKS, SIGSTOP);       /* at once, one call each */
    descend_stop ();
    k->is_stopped = true;
}

static void continue_all (struct keeper *k)
{
    descend_continue ();
    signal_ranks (k, ALL_RANKS, SIGCONT);
    k->is_stopped = false;
}

void signal_obey (struct keeper *k, uint32_t rank, int signo)
{
    if (rank == ALL_RANKS && signo == SIGSTOP) {
        stop_all (k);
    } else if (rank == ALL_RANKS && signo == SIGCONT) {
        continue_all (k);
    } else {
        signal_ranks (k, rank, signo);
        if (k->is_stopped && rank == ALL_RANKS && signo == SIGTERM)
            continue_all (k);
    }
}

/* Of SIGSTOP and SIGCONT the later one counts. SIGTERM continues a rank. */
static void owe (struct rank *rank, int signo)
{
    if (signo == SIGSTOP)
        rank->owed &= ~keeper_signal_bit (SIGCONT);
    if (signo == SIGCONT || signo == SIGTERM)
        rank->owed &= ~keeper_signal_bit (SIGSTOP);
    rank->owed |= keeper_signal_bit (signo);
}

static void send_or_owe (struct keeper *k, size_t index, int signo)
{
    struct rank *rank = &k->ranks[index];

    if (is_alive (k, index)) {
        if (signo == SIGTERM && hang_up (k, index))
            k->hang_up_ms = clock_ms () + HANG_UP_AGAIN_MS;
        note_sent (rank, signo);
        send_to_rank (k, index, signo);
    } else if (rank->state != RANK_ENDED) {
        owe (rank, signo);
    }
}

/* Until a group's leader is reaped no other process can get its number. */
void signal_ranks (struct keeper *k, uint32_t rank, int signo)
{
    if (signo == SIGTERM || signo == SIGINT || signo == SIGKILL)
        begin_hurry (k);
    reap_children (k);
    for (size_t i = 0; i < k->spec->n_ranks; i++)
        if (rank == ALL_RANKS || rank == keeper_rank (k, i))
            send_or_owe (k, i, signo);
}

void signal_pay (struct keeper *k, size_t index)
{
    uint64_t owed = k->ranks[index].owed;

    for (int signo = 1; owed != 0; signo++, owed >>= 1)
        if (owed & 1)
            send_or_owe (k, index, signo);
    k->ranks[index].owed = 0;
}

/* A SIGHUP that comes while bash gets ready to read a line is noted by it, and
 * forgotten until the next one. */
int signal_when_due (struct keeper *k)
{
    int64_t left_ms = k->hang_up_ms - clock_ms ();

    if (k->hang_up_ms == 0)
        return -1;
    if (left_ms > 0)
        return (int) left_ms;
    k->hang_up_ms = 0;
    for (size_t i = 0; i < k->n_begun; i++)
        if (is_alive (k, i))
            hang_up (k, i);
    return -1;
}

void signal_kill_rest (struct keeper *k, bool has_waited)
{
    if (k->n_dying > 0 && !has_waited)
        return;
    /* A tracer has last lines to write when its rank has ended. */
    if (k->spec->has_tracers && !k->has_spared && !has_waited) {
        signal_ranks (k, ALL_RANKS, SIGKILL);
        return;
    }
    k->has_spared = true;
    if (has_waited && k->kill_wait_ms < KILL_WAIT_MAX_MS)
        k->kill_wait_ms *= 2;
    /* Stop whole groups first, by one call each: while hundreds of processes
     * compute, a walk over them gets little of the processor. */
    signal_ranks (k, ALL_RANKS, SIGSTOP);
    for (size_t i = 0; i < k->n_begun; i++)
        if (k->ranks[i].state != RANK_ENDED)    /* it may have a process soon */
            note_sent (&k->ranks[i], SIGKILL);
    if ((k->n_dying = descend_kill (NULL, 0)) == 0)
        signal_ranks (k, ALL_RANKS, SIGKILL);    /* no /proc */
}
