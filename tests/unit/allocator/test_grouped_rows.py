"""A long queue is told in few rows: one for all jobs of which the same is to be said."""

from msgspec.structs import replace

from allocator.batch import questions
from allocator.batch.job import SendRows
from native.limits import Limits
from native.wire import batch
from native.wire.base import Array
from partition.batch import show
from tests.unit.allocator.partition_of import ALICE, BOB, YOD
from tests.unit.allocator.test_backfill import Backfilled


def long_line():
    """A partition that is full, and a queue of many kinds of jobs."""
    limits = Limits(silent_s=1e6, backfill_count=1)  # the others have no expected start
    partition = Backfilled(1, 2, limits=limits)
    partition.job(2, 600.0)  # it runs
    for number in range(30):
        who = BOB if number % 7 == 3 else ALICE
        partition.job(1 + number % 2, 60.0 * (1 + number % 3), principal=who)
    partition.job(1, array=Array(((0, 9, 1),)))
    return partition


def asked(partition, *, is_grouped):
    """The slices of an answer."""
    found, after, is_cut = [], None, True
    while is_cut:
        ask = batch.Ask(after=after, is_grouped=is_grouped)
        (answer,) = partition.receive(YOD, ask, ALICE)
        assert isinstance(answer, SendRows)
        found.append(answer.rows)
        after = max(row.also[-1][0] if row.also else row.job_id for row in answer.rows)
        is_cut = answer.is_cut
    return found


def apart(rows):
    """The rows of the single jobs, ids ascending."""
    found = [replace(row, also=()) for row in rows]
    for row in rows:
        found += [replace(row, job_id=job_id, submitted=at, also=()) for job_id, at in row.also]
    return sorted(found, key=lambda row: row.job_id)


def test_rows_that_are_those_of_several_jobs_say_of_each_what_its_own_does():
    partition = long_line()
    (grouped,), (single,) = (asked(partition, is_grouped=each) for each in (True, False))
    assert apart(grouped) == list(single)
    assert len(grouped) < len(single) and any(row.also for row in grouped)
    assert show.lines(grouped, 1e4) == show.lines(single, 1e4)


def test_each_job_is_in_one_slice(monkeypatch):
    monkeypatch.setattr(questions, "SLICE_JOBS", 5)
    partition = long_line()
    slices = asked(partition, is_grouped=True)
    ids = [row.job_id for rows in slices for row in apart(rows)]
    assert ids == [job.job_id for job in partition.machine.batch]
    assert max(len(apart(rows)) for rows in slices) == 5
