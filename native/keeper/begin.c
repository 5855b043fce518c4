#include "begin.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "clock.h"
#include "signals.h"
#include "start/spawn.h"

#define KEPT_OUTPUTS 64                 /* more would be many descriptors */

_Static_assert (PACKET_FDS + 4 * BATCH_RANKS * BATCHES_MAX <= OUTBOX_FDS,
                "begin_may leaves room for all batches");

bool begin_may (const struct keeper *k)
{
    return !keeper_has_begun_all (k) && !k->is_ending && !k->is_stopped
           && !k->lacks_fds && k->n_batches < BATCHES_MAX
           && k->box.n_fds <= PACKET_FDS;
}

/* --- what has been made -------------------------------------------------- */

/* A rank whose process could not be made is reported like a failed exec. */
static void fail (struct keeper *k, size_t index, enum step step, int error)
{
    struct report *report;

    k->ranks[index].state = RANK_ENDED;
    k->flushes_now = true;
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

void begin_drop_outputs (struct keeper *k)
{
    for (size_t i = 0; i < k->n_begun && i < KEPT_OUTPUTS; i++)
        if (k->ranks[i].state == RANK_ENDED)
            streams_close_outputs (&k->starter.streams[i]);
}

/* Nothing is sent to one that was reaped before it was known. */
static void learn (struct keeper *k, size_t index, pid_t reaped)
{
    struct rank *rank = &k->ranks[index];
    struct streams *streams = &k->starter.streams[index];
    pid_t born = start_born (&k->starter, index);

    if (rank->state != RANK_STARTING || rank->unix_pid > 0 || born == 0)
        return;
    rank->unix_pid = born;
    rank->pmi_fd = streams->theirs[3];
    report_start (k, index);
    streams_close_others (streams);     /* the rank has them by now */
    if (index >= KEPT_OUTPUTS)
        streams_close_outputs (streams);
    if (born != reaped)
        signal_pay (k, index);
}

void begin_learn (struct keeper *k, pid_t reaped)
{
    for (size_t i = 0; i < k->n_batches; i++) {
        const struct batch *batch = &k->batches[i];

        for (size_t j = 0; j < batch->count; j++)
            learn (k, batch->first + j, reaped);
    }
}

/* --- making -------------------------------------------------------------- */

static bool is_to_be_made (const struct keeper *k, size_t index)
{
    return k->ranks[index].state == RANK_STARTING
           && start_born (&k->starter, index) == 0;
}

static bool has_spawners (const struct keeper *k)
{
    for (size_t i = 0; i < k->n_batches; i++)
        if (k->batches[i].spawner > 0)
            return true;
    return false;
}

/* Fork the ranks that have no process. At the job's end none is made any more.
 *   false   the owner may have no more processes until a spawner has ended
 */
static bool fork_rest (struct keeper *k, const struct batch *batch)
{
    for (size_t i = batch->first; i < batch->first + batch->count; i++) {
        int error = 0;

        if (is_to_be_made (k, i) && !k->is_ending)
            error = start_fork (&k->starter, i);
        if (error == EAGAIN && has_spawners (k))
            return false;
        if (error == 0) {
            learn (k, i, 0);
        } else {
            fail (k, i, STEP_FORK, error);
            streams_close (&k->starter.streams[i]);
        }
    }
    k->lacks_fds = false;
    k->flushes_now = true;              /* the PCT can read the streams */
    return true;
}

void begin_ended (struct keeper *k, pid_t child)
{
    size_t n = 0;

    for (size_t i = 0; i < k->n_batches; i++)
        if (k->batches[i].spawner == child)
            k->batches[i].spawner = 0;
    for (size_t i = 0; i < k->n_batches; i++) {
        struct batch *batch = &k->batches[i];

        if (batch->spawner > 0 || !fork_rest (k, batch))
            k->batches[n++] = *batch;
    }
    k->n_batches = n;
}

void begin_hurry (struct keeper *k)
{
    k->is_hurried = true;
    for (size_t i = 0; i < k->n_batches; i++)
        if (k->batches[i].spawner > 0)
            kill (k->batches[i].spawner, SIGKILL);
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

/* Whether the ranks are begun in the same way. */
static bool are_alike (const struct keeper *k, size_t one, size_t other)
{
    return spawn_may_join (&k->starter, one, other)
           || (!spawn_may_make (&k->starter, one)
               && !spawn_may_make (&k->starter, other));
}

/* Batches on their way give descriptors back. */
static bool may_have_fds_later (const struct keeper *k, size_t n_waiting)
{
    return (errno == EMFILE || errno == ENFILE)
           && (k->n_batches > 0 || n_waiting > 0);
}

/* Make the streams of the next ranks that are alike. */
static struct batch next_batch (struct keeper *k)
{
    struct batch batch = { .first = k->n_begun };

    while (batch.count < BATCH_RANKS && !keeper_has_begun_all (k)) {
        size_t index = k->n_begun;

        if (!are_alike (k, batch.first, index))
            break;
        if (start_make_streams (&k->starter, index)) {
            k->ranks[index].state = RANK_STARTING;
            k->n_begun++;
            batch.count++;
            continue;
        }
        if (may_have_fds_later (k, batch.count)) {
            k->lacks_fds = true;
        } else if (batch.count == 0) {  /* else it fails as the first of the next */
            fail (k, index, STEP_STREAMS, errno);
            k->n_begun++;
        }
        break;
    }
    return batch;
}

void begin_some (struct keeper *k)
{
    struct batch batch;

    if (k->n_begun == 0) {
        let_go_ahead (k);
        k->begun_ms = clock_ms ();
    }
    batch = next_batch (k);
    if (batch.count == 0)
        return;
    k->has_children = true;
    if (batch.count > 1 && !k->is_hurried
        && spawn_may_make (&k->starter, batch.first))
        batch.spawner = spawn_batch (&k->starter, batch.first, batch.count);
    if (batch.spawner > 0 || !fork_rest (k, &batch))
        k->batches[k->n_batches++] = batch;
}
