"""A batch job for which a node could not be made ready waits again, at its place, a few times."""

import pytest

from allocator.batch.job import (
    BatchRecorded,
    ForgetSteps,
    RecordBatchJob,
    RecordEvent,
    StartBroker,
)
from native.errors import Refusal
from native.limits import Limits
from native.machine import Send
from native.wire import batch, codec
from native.wire.alloc import Freed
from native.wire.base import JobEnd, State, Terms
from tests.unit.allocator.batch_disk import Disk
from tests.unit.allocator.partition_of import ALICE, pct
from tests.unit.allocator.test_batch import OTHER, BatchPartition, ended, of, said

WHY = "node 0 (node0): prolog h1 failed: no disk"


def unready(job_id, attempt=0):
    """The broker's word that a node was not made ready."""
    end = codec.encode_part(JobEnd(State.BOOT_FAIL, 0, 0, WHY))
    return batch.BrokerEnded(job_id, 0, end, attempt)


def freed(partition, job_id):
    return partition.receive(pct(0), Freed.of(job_id, (0, 1)))


def failed_once(**options):
    """A partition with a job on both nodes, whose prolog has failed; nothing is written yet."""
    partition = BatchPartition(**options)
    job_id = partition.begun(4)
    actions = partition.receive(pct(0), unready(job_id))
    return partition, job_id, actions


def test_it_is_heard_when_that_is_on_the_disk():
    partition, job_id, actions = failed_once()
    assert batch.Heard(job_id) not in said(actions)
    assert said(partition.receive(pct(0), unready(job_id))) == []  # the PCT says it again
    assert batch.Heard(job_id) in said(partition.keep())


def test_it_has_slots_again_when_its_own_are_free_and_the_disk_knows():
    partition, job_id, _ = failed_once()
    freed(partition, job_id)
    assert partition.machine.batch.get(job_id).state is State.PENDING  # the disk does not know
    (start,) = of(StartBroker, partition.keep())
    assert (start.job.job_id, start.job.attempt) == (job_id, 1)
    credential = codec.decode_credential(start.job.grant.credential)
    assert credential.attempt == 1


def test_it_waits_for_its_own_slots():
    partition, job_id, _ = failed_once()
    assert of(StartBroker, partition.keep()) == []
    assert "waits again" in partition.machine.batch.get(job_id).reason
    freed(partition, job_id)
    partition.wait(0.0)
    (start,) = of(StartBroker, partition.keep())
    assert start.job.job_id == job_id


def test_it_is_before_those_that_have_come_after_it():
    partition, job_id, _ = failed_once()
    later = partition.submit(4, number=1)
    assert later
    partition.wait(1.0)
    freed(partition, job_id)
    (start,) = of(StartBroker, partition.keep())
    assert start.job.job_id == job_id


def test_its_events_tell_what_happened():
    partition, job_id, _ = failed_once()
    said_last = of(RecordEvent, partition.history)[-1]
    assert said_last == RecordEvent(job_id, f"waits again (1 of 3): {WHY}")


@pytest.mark.parametrize(("most", "text"), [(0, WHY), (1, f"placed 2 times: {WHY}")])
def test_it_ends_with_the_reason_when_it_was_placed_too_often(most, text):
    partition = BatchPartition(limits=Limits(requeues_count=most))
    job_id = partition.begun(4)
    for attempt in range(most):
        partition.receive(pct(0), unready(job_id, attempt))
        partition.keep()
        freed(partition, job_id)
        partition.wait(0.0)
        partition.keep()
    partition.receive(pct(0), unready(job_id, most))
    job = partition.machine.batch.get(job_id)
    assert (job.state, job.reason) == (State.FAILED, text)


def test_one_that_somebody_cancels_does_not_wait_again():
    partition = BatchPartition()
    job_id = partition.begun(4)
    job = partition.machine.batch.get(job_id)
    job.is_cancelled = True
    partition.receive(pct(0), unready(job_id))
    assert job.state is State.CANCELLED


def test_the_end_of_an_earlier_broker_is_none_of_the_later_ones():
    partition, job_id, _ = failed_once()
    freed(partition, job_id)
    partition.keep()
    assert said(partition.receive(pct(0), unready(job_id))) == [batch.Heard(job_id)]
    assert partition.machine.batch.get(job_id).state is State.CONFIGURING


def test_a_disk_that_refuses_is_asked_again_before_anything_is_done():
    partition, job_id, _ = failed_once()
    freed(partition, job_id)
    refused = partition.handle(BatchRecorded((job_id,), "no space"))
    partition.unkept.clear()
    assert not [each for each in refused if isinstance(each, Send) and each.target == pct(0)]
    again = partition.wait(20.0)
    assert [each.job.job_id for each in of(RecordBatchJob, again)] == [job_id]
    assert of(StartBroker, partition.keep())


def test_a_later_bebopd_knows_how_often_it_was_placed():
    disk = Disk()
    partition = BatchPartition()
    disk.batch.keep(of(RecordBatchJob, partition.submit(4)))
    (start,) = of(StartBroker, partition.keep())
    partition.receive(pct(0), batch.Started(1))
    partition.keep()
    actions = partition.receive(pct(0), unready(start.job.job_id))
    disk.batch.keep(of(RecordBatchJob, actions))
    (job,) = disk.batch.earlier().jobs
    assert (job.state, job.attempt, job.nodes) == (State.PENDING, 1, ())
    assert WHY in job.reason
    disk.close()


def requeued(partition, job_id):
    """What a user hears who has a job that runs placed again."""
    actions = partition.receive(OTHER, batch.Requeue(job_id), ALICE)
    return said(actions)


def test_a_job_that_runs_is_ended_and_waits_again_when_somebody_asks_for_it():
    partition = BatchPartition()
    job_id = partition.begun(4)
    assert requeued(partition, job_id) == [batch.EndBroker(job_id), batch.Done(job_id)]
    partition.keep()
    actions = partition.receive(pct(0), ended(job_id, State.CANCELLED))
    assert of(ForgetSteps, actions) == [ForgetSteps(job_id)]
    freed(partition, job_id)
    (start,) = of(StartBroker, partition.keep())
    assert (start.job.job_id, start.job.attempt, start.job.is_requeued) == (job_id, 1, False)


def test_its_end_is_no_end_of_the_job_whatever_it_was():
    for state in (State.COMPLETED, State.FAILED, State.CANCELLED):
        partition = BatchPartition()
        job_id = partition.begun(4)
        requeued(partition, job_id)
        partition.keep()
        partition.receive(pct(0), ended(job_id, state))
        assert partition.machine.batch.get(job_id).state is State.PENDING


def ended_with(job_id, exit_status):
    end = codec.encode_part(JobEnd(State.FAILED, exit_status, 0, ""))
    return batch.BrokerEnded(job_id, 0, end)


def asks_for_it():
    """A job that runs, and waits again when its script ends with 75."""
    partition = BatchPartition()
    partition.submit(4, terms=Terms(requeue_on=75))
    (start,) = of(StartBroker, partition.keep())
    partition.receive(pct(0), batch.Started(start.job.job_id))
    partition.keep()
    return partition, start.job.job_id


def test_a_script_asks_for_it_by_its_exit_status():
    partition, job_id = asks_for_it()
    partition.receive(pct(0), ended_with(job_id, 75))
    freed(partition, job_id)
    (start,) = of(StartBroker, partition.keep())
    assert (start.job.job_id, start.job.attempt, start.job.is_requeued) == (job_id, 1, False)


@pytest.mark.parametrize(("exit_status", "is_cancelled"), [(1, False), (75, True)])
def test_another_status_ends_it_and_so_does_75_of_one_that_is_cancelled(exit_status, is_cancelled):
    partition, job_id = asks_for_it()
    if is_cancelled:
        partition.receive(OTHER, batch.Cancel(job_id), ALICE)
        partition.keep()
    partition.receive(pct(0), ended_with(job_id, exit_status))
    partition.keep()
    assert partition.machine.batch.get(job_id) is None


def test_that_it_is_to_wait_again_outlives_bebopd():
    disk = Disk()
    partition = BatchPartition()
    actions = partition.submit(4)
    disk.batch.keep(of(RecordBatchJob, actions))
    (start,) = of(StartBroker, partition.keep())
    partition.receive(pct(0), batch.Started(start.job.job_id))
    partition.keep()
    actions = partition.receive(OTHER, batch.Requeue(start.job.job_id), ALICE)
    disk.batch.keep(of(RecordBatchJob, actions))
    (job,) = disk.batch.earlier().jobs
    assert job.is_requeued
    disk.close()


def test_cancelling_it_meanwhile_counts_for_more():
    partition = BatchPartition()
    job_id = partition.begun(4)
    requeued(partition, job_id)
    partition.receive(OTHER, batch.Cancel(job_id), ALICE)
    partition.keep()
    partition.receive(pct(0), ended(job_id, State.CANCELLED))
    partition.keep()
    assert partition.machine.batch.get(job_id) is None


def test_a_job_that_does_not_run_is_not_requeued():
    partition = BatchPartition(1, 1)
    partition.begun(1)
    partition.submit(1, number=1)
    partition.keep()
    (refused,) = requeued(partition, 2)
    assert refused.code is Refusal.BUSY
    assert "does not run" in refused.text
