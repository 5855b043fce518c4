#include "begin.h"

#include <errno.h>
#include <unistd.h>

#include "clock.h"
#include "signals.h"
#include "start/spawn.h"

#define KEPT_OUTPUTS 64                 /* more would be many descriptors */

bool begin_may (const struct keeper *k)
{
    return !keeper_has_started_all (k) && !k->is_ending && !k->is_stopped
           && !k->lacks_fds && k->n_batches < BATCHES_MAX
           && k->box.n_fds <= PACKET_FDS;
}

/* --- what has been made -------------------------------------------------- */

/* A rank whose process could not be made is reported like a failed exec. */
static void fail (struct keeper *k, size_t index, enum step step, int error)
{
    struct report *report;

    k->ranks[index].state = RANK_ENDED;
    report = report_add (&k->box, REPORT_EXEC_FAILED, keeper_rank (k, index));
    report->value = error;
    report->step = (uint32_t) step;
    report = report_add (&k->box, REPORT_ENDED, keeper_rank (k, index));
    report->value = 126 << 8;
}

static void report_start (struct keeper *k, size_t index)
{
    struct streams *streams = &k->starter.streams[index];
    struct report *report;

    report = report_add (&k->box, REPORT_STARTED, keeper_rank (k, index));
    report->value = k->ranks[index].unix_pid;
    report->flags = streams->port;
    for (int i = 0; i < 4; i++)
        if (streams->ours[i] >= 0) {
            report->fds |= 1u << i;
            k->box.fds[k->box.n_fds++] = streams->ours[i];
            streams->ours[i] = -1;      /* it is closed when it is sent */
        }
}

/* The rank has its own ends by now. */
static void close_theirs (struct keeper *k, size_t index)
{
    struct streams *streams = &k->starter.streams[index];
    int output = streams->theirs[1], error = streams->theirs[2];

    if (index < KEPT_OUTPUTS)
        streams->theirs[1] = streams->theirs[2] = -1;
    streams_close_theirs (streams);
    if (index < KEPT_OUTPUTS) {
        streams->theirs[1] = output;
        streams->theirs[2] = error;
    }
}

void begin_drop_outputs (struct keeper *k)
{
    for (size_t i = 0; i < k->n_started && i < KEPT_OUTPUTS; i++)
        if (k->ranks[i].state == RANK_ENDED)
            streams_close_theirs (&k->starter.streams[i]);
}

static void learn (struct keeper *k, size_t index)
{
    struct rank *rank = &k->ranks[index];
    struct streams *streams = &k->starter.streams[index];
    pid_t born = start_born (&k->starter, index);

    if (rank->state != RANK_STARTING || rank->unix_pid > 0 || born == 0)
        return;
    if (born < 0) {
        fail (k, index, STEP_FORK, -born);
        streams_close_ours (streams);
        streams_close_theirs (streams);
        return;
    }
    rank->unix_pid = born;
    rank->pmi_fd = streams->theirs[3];
    report_start (k, index);
    close_theirs (k, index);
    signal_pay (k, index);
}

static void learn_batch (struct keeper *k, const struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        learn (k, batch->first + i);
}

void begin_learn (struct keeper *k)
{
    for (size_t i = 0; i < k->n_batches; i++)
        learn_batch (k, &k->batches[i]);
}

/* --- making -------------------------------------------------------------- */

/* By the keeper, which has not to wait for it. What is left at the job's end is
 * made no more. */
static void fork_batch (struct keeper *k, const struct batch *batch)
{
    for (size_t i = batch->first; i < batch->first + batch->count; i++) {
        if (start_born (&k->starter, i) == 0 && !k->is_ending)
            start_fork (&k->starter, i);
        learn (k, i);
    }
    k->lacks_fds = false;
    k->is_batch_made = true;
}

void begin_ended (struct keeper *k, pid_t child)
{
    for (size_t i = 0; i < k->n_batches; i++)
        if (k->batches[i].spawner == child) {
            struct batch batch = k->batches[i];

            k->batches[i] = k->batches[--k->n_batches];
            fork_batch (k, &batch);
            return;
        }
}

/* A rank that waits for no other finds its byte in the pipe, if it is held by
 * preload: it tells that it is at its entry, and goes on. */
static void let_go_ahead (struct keeper *k)
{
    static const char go;

    if (k->spec->is_alone && k->spec->n_ranks == 1
        && !(k->spec->ranks[0].flags & RANK_IS_TRACED)
        && k->spec->ranks[0].program->hold != HOLD_FOR_DEBUGGERS)
        k->is_ahead = write (k->starter.go_writer, &go, 1) == 1;
}

static bool are_alike (const struct keeper *k, size_t one, size_t other)
{
    return k->spec->ranks[one].program == k->spec->ranks[other].program
           && spawn_may_make (&k->starter, one)
              == spawn_may_make (&k->starter, other);
}

/* Batches on their way give descriptors back. */
static bool may_have_fds_later (const struct keeper *k, size_t n_waiting)
{
    return (errno == EMFILE || errno == ENFILE)
           && (k->n_batches > 0 || n_waiting > 0);
}

/* Make the streams of the next ranks of one kind. */
static struct batch next_batch (struct keeper *k)
{
    struct batch batch = { .first = k->n_started };

    while (batch.count < BATCH_RANKS && !keeper_has_started_all (k)) {
        size_t index = k->n_started;

        if (!are_alike (k, batch.first, index))
            break;
        if (start_make_streams (&k->starter, index)) {
            k->ranks[index].state = RANK_STARTING;
            k->n_started++;
            batch.count++;
            continue;
        }
        if (may_have_fds_later (k, batch.count)) {
            k->lacks_fds = true;
        } else if (batch.count == 0) {  /* else it fails as the first of the next */
            fail (k, index, STEP_STREAMS, errno);
            k->n_started++;
        }
        break;
    }
    return batch;
}

void begin_some (struct keeper *k)
{
    struct batch batch;

    if (k->n_started == 0)
        let_go_ahead (k);
    batch = next_batch (k);
    k->begun_ms = clock_ms ();
    if (batch.count == 0)
        return;
    k->has_children = true;
    if (batch.count > 1 && spawn_may_make (&k->starter, batch.first))
        batch.spawner = spawn_batch (&k->starter, batch.first, batch.count);
    if (batch.spawner > 0)
        k->batches[k->n_batches++] = batch;
    else
        fork_batch (k, &batch);
}
