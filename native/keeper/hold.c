#include "hold.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "begin.h"
#include "clock.h"
#include "look.h"
#include "trace.h"

static bool is_for_debuggers (const struct keeper *k, size_t index)
{
    return k->spec->ranks[index].program->hold == HOLD_FOR_DEBUGGERS;
}

static void release (struct keeper *k, size_t index)
{
    struct rank *rank = &k->ranks[index];

    if (rank->state != RANK_HELD)
        return;
    rank->state = RANK_RELEASED;
    if (rank->how == HELD_TRACE && is_for_debuggers (k, index)) {
        kill (rank->unix_pid, SIGCONT);
        return;
    }
    if (k->spec->ranks[index].flags & RANK_IS_TRACED
        && trace_on (rank->unix_pid, rank->how == HELD_TRACE)
        && rank->how == HELD_TRACE)
        return;
    if (rank->how == HELD_PRELOAD)
        k->go_owed += !k->is_ahead;
    else if (rank->how == HELD_TRACE)
        trace_release (rank->unix_pid);
    else
        start_open_gate (&k->starter, index, GATE_GO);
}

void hold_write_go (struct keeper *k)
{
    static const char bytes[PIPE_BUF];

    while (k->go_owed > 0) {
        size_t count = k->go_owed < PIPE_BUF ? k->go_owed : PIPE_BUF;
        ssize_t n = write (k->starter.go_writer, bytes, count);

        if (n > 0)
            k->go_owed -= (size_t) n;
        else if (errno != EINTR)
            break;
    }
}

void hold_release_all (struct keeper *k)
{
    k->is_go = true;
    for (size_t i = 0; i < k->spec->n_ranks; i++)
        release (k, i);
    hold_write_go (k);
    look_begin (k);
}

static bool are_all_held (const struct keeper *k)
{
    if (k->n_held < k->spec->n_ranks)
        return false;
    for (size_t i = 0; i < k->spec->n_ranks; i++)
        if (k->ranks[i].state != RANK_HELD)
            return false;               /* it has died since */
    return true;
}

void hold_at_entry (struct keeper *k, size_t index, enum held_how how)
{
    struct rank *rank = &k->ranks[index];

    if (rank->state != RANK_STARTING)
        return;                         /* the message lies */
    rank->state = RANK_HELD;
    rank->how = how;
    if (how == HELD_TRACE && is_for_debuggers (k, index))
        trace_leave_stopped (rank->unix_pid);
    report_add (&k->box, REPORT_HELD, keeper_rank (k, index))
        ->value = (int) how;
    if (k->n_held++ == 0)
        k->held_at_ms = clock_ms ();
    if (k->is_go) {                     /* go came before this one was held */
        release (k, index);
        hold_write_go (k);
    } else if (k->spec->is_alone && are_all_held (k)) {
        hold_release_all (k);
    }
}

static void answer_trace (struct keeper *k, size_t index)
{
    const struct rank *rank = &k->ranks[index];

    if (rank->state != RANK_STARTING)
        return;
    start_open_gate (&k->starter, index, trace_start (rank->unix_pid)
                     ? GATE_TRACED : GATE_NOT_TRACED);
}

static void report_exec_failed (struct keeper *k, const struct message *m)
{
    struct report *report;

    report = report_add (&k->box, REPORT_EXEC_FAILED,
                         keeper_rank (k, m->index));
    report->value = m->error;
    report->step = m->step;
    report_set_text (report, m->text);
}

void hold_take_messages (struct keeper *k)
{
    struct message m;
    ssize_t n;

    while ((n = read (k->starter.messages_fd, &m, sizeof (m))) > 0) {
        begin_learn (k, 0);
        if (n != sizeof (m) || m.index >= k->n_begun
            || k->ranks[m.index].unix_pid == 0
            || k->ranks[m.index].state == RANK_ENDED)
            continue;
        m.text[sizeof (m.text) - 1] = 0;
        switch ((enum message_kind) m.kind) {
        case MESSAGE_FAILED:
            report_exec_failed (k, &m);
            break;
        case MESSAGE_TRACE_ME:
            answer_trace (k, m.index);
            break;
        case MESSAGE_HELD:
            hold_at_entry (k, m.index, HELD_PRELOAD);
            break;
        case MESSAGE_HELD_BEFORE_EXEC:
            hold_at_entry (k, m.index, HELD_BEFORE_EXEC);
            break;
        }
    }
}
