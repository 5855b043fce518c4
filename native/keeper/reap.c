#include "reap.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "begin.h"
#include "clock.h"
#include "hold.h"
#include "mapped.h"
#include "trace.h"

static size_t find (const struct keeper *k, pid_t unix_pid)
{
    size_t i;

    for (i = 0; i < k->n_begun; i++)
        if (k->ranks[i].unix_pid == unix_pid
            && k->ranks[i].state != RANK_ENDED)
            break;
    return i;
}

static uint64_t microseconds (const struct timeval *t)
{
    return (uint64_t) t->tv_sec * 1000000u + (uint64_t) t->tv_usec;
}

static void report_claim (const struct keeper *k, size_t index,
                          int wait_status, struct report *report)
{
    const struct rank *rank = &k->ranks[index];
    char text[CLAIM_BYTES];

    if (!WIFEXITED (wait_status) || rank->state != RANK_RELEASED)
        return;
    if (rank->how == HELD_PRELOAD
        && claim_read (k->starter.claims_fd, index, text))
        report_set_text (report, text);
    else if (*k->seen && k->seen_index == index)
        report_set_text (report, k->seen);
}

static void report_ended (struct keeper *k, size_t index, int wait_status,
                          const struct rusage *used)
{
    struct rank *rank = &k->ranks[index];
    struct timespec now;
    struct report *report;

    /* Its messages were written before its end: report the reason first. */
    if (rank->state != RANK_RELEASED || rank->how == HELD_BEFORE_EXEC)
        hold_take_messages (k);
    clock_gettime (CLOCK_MONOTONIC, &now);
    if (k->box.first == k->box.count)
        k->ended_at_ms = clock_ms ();
    report = report_add (&k->box, REPORT_ENDED, keeper_rank (k, index));
    report->value = wait_status;
    k->box.is_urgent |= wait_status != 0;
    report->flags = rank->state == RANK_RELEASED ? REPORT_WAS_RELEASED : 0;
    if (WIFSIGNALED (wait_status)
        && rank->sent & keeper_signal_bit (WTERMSIG (wait_status)))
        report->flags |= REPORT_WAS_SIGNALLED;
    report->user_us = microseconds (&used->ru_utime);
    report->system_us = microseconds (&used->ru_stime);
    report->max_rss_kb = (uint64_t) used->ru_maxrss;
    report->ended_at_ns = (uint64_t) now.tv_sec * 1000000000u
                          + (uint64_t) now.tv_nsec;
    report_claim (k, index, wait_status, report);
    rank->state = RANK_ENDED;
    if (k->starter.terminal.index == index)
        terminal_end (&k->starter.terminal);
}

void reap_children (struct keeper *k)
{
    struct rusage used;
    int wait_status;
    size_t index;
    pid_t child;

    while ((child = wait4 (-1, &wait_status, WNOHANG | __WALL, &used)) > 0) {
        begin_learn (k, child);
        index = find (k, child);
        if (WIFSTOPPED (wait_status)) {         /* only what we trace */
            if (!trace_dying (k, child, wait_status)
                && trace_stopped (child, wait_status) && index < k->n_begun)
                hold_at_entry (k, index, HELD_TRACE);
            continue;
        }
        if (k->n_dying > 0)
            k->n_dying--;
        if (index < k->n_begun)
            report_ended (k, index, wait_status, &used);
        else
            begin_ended (k, child);
    }
    if (child < 0 && errno == ECHILD)
        k->has_children = false;
    begin_learn (k, 0);
}
