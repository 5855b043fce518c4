"""Batch jobs that begin not before a time, and are over by a time or do not begin; forecasts."""

import pytest

from allocator.batch.job import RecordBatchJob
from native.errors import Refusal
from native.machine import DeadlineReached
from native.wire import batch
from native.wire.base import After, AfterKind, Dependency, State
from tests.unit.allocator.batch_disk import Disk
from tests.unit.allocator.partition_of import ALICE, YOD, spec
from tests.unit.allocator.test_backfill import HOUR_S, Backfilled
from tests.unit.allocator.test_batch import of, said


class Timed(Backfilled):
    """A partition with a clock on the wall that may be set."""

    def __init__(self, **options):
        self.set_by = 5000.5
        super().__init__(wall_clock=self.unix_time, **options)

    def unix_time(self):
        return self.now + self.set_by

    def passes(self, seconds):
        self.now += seconds
        self.handle(DeadlineReached())
        self.keep()

    def forecast(self, size, time_s, **fields):
        message = batch.Submit(bytes(16), spec(size), "a", time_s, b"", is_test=True, **fields)
        (answer,) = said(self.receive(YOD, message, ALICE))
        return answer


def test_a_job_begins_at_its_time_and_not_before():
    partition = Timed()
    job_id = partition.job(1, begins=partition.unix_time() + 60)
    assert partition.machine.batch.get(job_id).reason == "its begin time has not come"
    partition.passes(59)
    assert partition.state(job_id) is State.PENDING
    partition.passes(1)
    assert partition.has_slots(job_id) == [True]


def test_a_clock_that_is_set_back_delays_a_begin():
    partition = Timed()
    job_id = partition.job(1, begins=partition.unix_time() + 60)
    partition.set_by -= 30
    partition.passes(60)
    assert partition.state(job_id) is State.PENDING
    partition.passes(30)
    assert partition.has_slots(job_id) == [True]


def test_its_time_comes_after_the_jobs_that_it_waits_for():
    partition = Timed()
    first = partition.job(4)
    after = Dependency((After(AfterKind.ENDED, first),))
    second = partition.job(1, begins=partition.unix_time() + 60, after=after)
    partition.passes(60)
    assert str(first) in partition.machine.batch.get(second).reason
    partition.end(first)
    assert partition.has_slots(second) == [True]


def test_a_job_that_cannot_be_over_by_its_deadline_does_not_begin():
    partition = Timed()
    first = partition.job(4)
    late = partition.job(1, HOUR_S, deadline=partition.unix_time() + 2 * HOUR_S)
    partition.passes(HOUR_S)
    assert partition.state(late) is State.PENDING
    partition.passes(0.5)
    assert partition.state(late) is None
    partition.end(first)
    assert partition.has_slots(late) == [False]


def test_one_that_has_begun_is_none_of_the_deadlines_business():
    partition = Timed()
    job_id = partition.job(1, HOUR_S, deadline=partition.unix_time() + HOUR_S)
    partition.passes(HOUR_S + 1)
    assert partition.state(job_id) is State.CONFIGURING


def test_a_longer_time_limit_brings_the_deadline_nearer():
    partition = Timed()
    partition.job(4)
    job_id = partition.job(1, HOUR_S, deadline=partition.unix_time() + 2 * HOUR_S)
    partition.passes(60)
    partition.receive(YOD, batch.LimitTime(job_id, 2 * HOUR_S), ALICE)
    partition.keep()
    assert partition.state(job_id) is None


@pytest.mark.parametrize("held", [{}, {"is_held": True}], ids=["begins", "held"])
def test_a_deadline_counts_whatever_a_job_waits_for(held):
    partition = Timed()
    now = partition.unix_time()
    job_id = partition.job(1, 60.0, begins=now + 30, deadline=now + 100, **held)
    partition.set_by += 1
    partition.passes(40)
    assert partition.state(job_id) is None


def test_times_that_cannot_be_kept_are_refused():
    partition = Timed()
    now = partition.unix_time()

    def refusal(time_s, **fields):
        message = batch.Submit(bytes(16), spec(1), "a", time_s, b"", **fields)
        (refused,) = said(partition.receive(YOD, message, ALICE))
        assert refused.code is Refusal.BAD_REQUEST
        return refused.text

    assert "needs a time limit" in refusal(0.0, deadline=now + 60)
    assert "would be over 1 s after" in refusal(61.0, deadline=now + 60)
    assert "would be over 2 s after" in refusal(32.0, begins=now + 30, deadline=now + 60)


def test_begin_and_deadline_outlive_bebopd():
    disk = Disk()
    partition = Timed()
    message = batch.Submit(
        bytes(16), spec(1), "a", 60.0, b"", begins=1795600000.0, deadline=1795700000.0
    )
    disk.batch.keep(of(RecordBatchJob, partition.receive(YOD, message, ALICE)))
    (job,) = disk.batch.earlier().jobs
    assert (job.begins, job.deadline) == (1795600000.0, 1795700000.0)
    disk.close()


def test_a_forecast_says_when_and_where_and_takes_nothing():
    partition = Timed()
    now = partition.unix_time()
    assert partition.forecast(4, 60.0) == batch.Forecast(now, ((0, 1),), 1)
    partition.job(4, HOUR_S)
    partition.job(2, HOUR_S)
    assert partition.forecast(4, 60.0).at == now + 2 * HOUR_S
    assert partition.forecast(2, 60.0).at == now + HOUR_S
    assert partition.forecast(2, 60.0, begins=now + 5 * HOUR_S).at == now + 5 * HOUR_S
    assert len(partition.machine.batch) == 2


def test_a_forecast_says_why_nothing_is_known():
    partition = Timed()
    first = partition.job(4)
    for fields, why in (
        ({}, "no time limit"),
        ({"is_held": True}, "released"),
        ({"after": Dependency((After(AfterKind.OK, first),))}, str(first)),
    ):
        answer = partition.forecast(1, 60.0, **fields)
        assert answer.at == 0.0
        assert why in answer.text


def test_a_forecast_is_refused_as_the_job_would_be():
    partition = Timed()
    assert partition.forecast(5, 60.0).code is Refusal.NOT_ENOUGH_NODES
