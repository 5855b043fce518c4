"""bebopd ends batch jobs that their brokers do not end when their time is over."""

from allocator.batch.job import Earlier, RecordEvent
from allocator.batch.times import OVERDUE
from native.limits import Limits
from native.wire import batch
from native.wire.alloc import Hosting
from native.wire.base import State
from tests.unit.allocator.partition_of import ALICE, YOD, pct, spec
from tests.unit.allocator.test_batch import OTHER, BatchPartition, ended, of, said, token

LIMITS = Limits(silent_s=1e6, kill_wait_s=30.0, overtime_s=60.0)
LIMIT_S, GRACE_S = 600.0, 90.0
KILLED = batch.EndBroker(1, is_forced=True)
GONE = batch.BrokerEnded(1, 9, b"")


def with_job(time_s=LIMIT_S):
    """A partition in which job 1 runs on node 0, with this time limit."""
    partition = BatchPartition(limits=LIMITS)
    submit = batch.Submit(token(), spec(1), "a", time_s, b"task")
    partition.receive(YOD, submit, ALICE)
    partition.keep()
    partition.receive(pct(0), batch.Started(1))
    partition.receive(pct(0), Hosting(1))
    partition.keep()
    return partition


def ends_with(partition, message=GONE):
    """State and reason of job 1 when its broker has ended."""
    partition.receive(pct(0), message)
    job = partition.machine.batch.get(1)
    partition.keep()
    return job.state, job.reason


def test_a_broker_that_does_not_end_its_job_is_killed_in_the_end():
    partition = with_job()
    assert said(partition.wait(LIMIT_S + GRACE_S - 1.0)) == []
    assert said(partition.wait(1.0)) == [KILLED]
    (event,) = of(RecordEvent, partition.history[-1:])
    assert event.text == "not ended by its broker 90 s after its time limit: killed"
    assert said(partition.wait(LIMITS.end_s)) == [KILLED]  # as long as it is there
    assert ends_with(partition) == (State.TIMEOUT, OVERDUE)
    assert of(RecordEvent, partition.history)[-1].text == f"TIMEOUT: {OVERDUE}"


def test_a_job_without_a_limit_or_that_ends_in_time_is_left_alone():
    assert said(with_job(time_s=0.0).wait(1e6)) == []
    partition = with_job()
    partition.wait(LIMIT_S)
    assert ends_with(partition, ended(1, State.TIMEOUT)) == (State.TIMEOUT, "")
    assert partition.machine.batch.times.deadline() is None


def test_a_broker_that_says_at_last_that_its_job_is_well_is_believed():
    partition = with_job()
    partition.wait(LIMIT_S + GRACE_S)
    assert ends_with(partition, ended(1)) == (State.COMPLETED, "")


def test_a_limit_that_is_changed_moves_the_end():
    partition = with_job()
    partition.wait(100.0)
    partition.receive(OTHER, batch.LimitTime(1, 2 * LIMIT_S), ALICE)
    partition.keep()
    assert said(partition.wait(2 * LIMIT_S + GRACE_S - 101.0)) == []
    assert KILLED in said(partition.wait(1.0))


def test_a_limit_that_the_disk_refuses_moves_nothing():
    partition = with_job()
    partition.receive(OTHER, batch.LimitTime(1, 2 * LIMIT_S), ALICE)
    partition.keep(error="the disk is full")
    assert KILLED in said(partition.wait(LIMIT_S + GRACE_S))


def test_a_later_bebopd_counts_from_the_beginning_of_the_job():
    job = with_job().machine.batch.get(1)
    job.is_told, job.began = False, job.began - 400.0
    partition = BatchPartition(0, earlier=Earlier((job,)), limits=LIMITS, next_job_id=100)
    partition.says(0, 1)
    assert said(partition.wait(LIMIT_S + GRACE_S - 401.0)) == []
    assert said(partition.wait(1.0)) == [KILLED]


def test_a_node_that_was_away_hears_of_it_when_it_is_back():
    partition = with_job()
    partition.wait(LIMIT_S)
    partition.lose(pct(0))
    assert said(partition.wait(GRACE_S)) == []
    assert KILLED in said(partition.says(0, 1))
    assert ends_with(partition) == (State.TIMEOUT, OVERDUE)


def test_a_job_that_is_to_wait_again_does_so_though_its_broker_has_not_ended_it():
    partition = with_job()
    partition.receive(OTHER, batch.Requeue(1), ALICE)
    partition.keep()
    assert KILLED in said(partition.wait(LIMIT_S + GRACE_S))
    assert ends_with(partition)[0] is State.PENDING
    assert not partition.machine.batch.get(1).is_overdue


def test_a_job_that_was_cancelled_is_cancelled_though_its_broker_has_not_ended_it():
    partition = with_job()
    partition.receive(OTHER, batch.Cancel(1), ALICE)
    partition.keep()
    assert KILLED in said(partition.wait(LIMIT_S + GRACE_S))
    assert ends_with(partition)[0] is State.CANCELLED
