"""Batch jobs that are kept from the line."""

from allocator.batch.job import RecordBatchJob
from native.errors import Refusal
from native.ids import PortalId
from native.machine import Send
from native.wire import batch
from native.wire.alloc import Freed
from tests.unit.allocator.batch_disk import Disk
from tests.unit.allocator.partition_of import ALICE, BOB, pct
from tests.unit.allocator.test_batch import OTHER, ROOT, BatchPartition, ended


def submitted(partition, *, number=0, **fields):
    """A job that is handed in; its id."""
    partition.submit(number=number, **fields)
    partition.keep()
    return max(job.job_id for job in partition.machine.batch)


def end(partition, job_id):
    """A job that has slots of node 0 ends, and its node is free."""
    for message in (batch.Started(job_id), ended(job_id), Freed(job_id, ((0, 1),))):
        partition.receive(pct(0), message)
        partition.keep()


def hold(partition, job_id, is_on, principal=ALICE):
    """What a user hears who holds a job, or releases it, when the disk has written."""
    source = PortalId(1, 71000 + principal.uid)
    actions = partition.receive(source, batch.Hold(job_id, is_on), principal) + partition.keep()
    (message,) = (a.message for a in actions if isinstance(a, Send) and a.target == source)
    return message


def reason_of(partition, job_id):
    return partition.machine.batch.get(job_id).reason


def test_a_job_that_is_held_is_passed_and_is_behind_the_others_when_it_is_released():
    partition = BatchPartition(1, 1)
    first, second, third = (submitted(partition, number=number) for number in (1, 2, 3))
    assert hold(partition, second, True) == batch.Done(second)
    assert reason_of(partition, second) == "held by alice (yodjob release 2)"
    end(partition, first)
    assert partition.machine.jobs.get(third) is not None
    assert hold(partition, second, False) == batch.Done(second)
    assert partition.machine.jobs.get(second) is None
    end(partition, third)
    assert partition.machine.jobs.get(second) is not None
    refused = hold(partition, second, True)
    assert refused.code is Refusal.BUSY and "does not wait" in refused.text


def test_a_job_that_is_handed_in_held_has_no_slots_until_it_is_released():
    partition = BatchPartition(1, 1)
    job_id = submitted(partition, is_held=True)
    assert partition.machine.jobs.get(job_id) is None
    assert hold(partition, job_id, False) == batch.Done(job_id)
    assert partition.machine.jobs.get(job_id) is not None


def test_what_an_operator_holds_is_released_by_operators_only():
    partition = BatchPartition(1, 1)
    submitted(partition, number=1)
    job_id = submitted(partition, number=2)
    assert hold(partition, job_id, True, BOB).code is Refusal.NOT_PERMITTED
    assert hold(partition, job_id, True, ROOT) == batch.Done(job_id)
    assert hold(partition, job_id, True) == batch.Done(job_id)  # as it is
    assert "held by an operator" in reason_of(partition, job_id)
    assert hold(partition, job_id, False).code is Refusal.NOT_PERMITTED
    assert hold(partition, job_id, False, ROOT) == batch.Done(job_id)
    assert reason_of(partition, job_id).startswith("1 rank requested")


def test_a_hold_that_the_disk_refuses_changes_nothing():
    partition = BatchPartition(1, 1)
    first, second = submitted(partition, number=1), submitted(partition, number=2)
    partition.receive(OTHER, batch.Hold(second, True), ALICE)
    (refused,) = (a.message for a in partition.keep("full") if isinstance(a, Send))
    assert refused.code is Refusal.NOT_RECORDED
    end(partition, first)
    assert partition.machine.jobs.get(second) is not None


def test_a_later_bebopd_holds_what_was_held():
    disk = Disk()
    partition = BatchPartition(1, 1)
    submitted(partition, number=1)
    job_id = submitted(partition, number=2, is_held=True)
    disk.batch.keep([RecordBatchJob(partition.machine.batch.get(job_id), b"task")])
    hold(partition, job_id, True, ROOT)
    disk.batch.keep([RecordBatchJob(partition.machine.batch.get(job_id))])
    later = BatchPartition(1, 1, earlier=disk.batch.earlier(), next_job_id=100)
    later.keep()
    assert later.machine.jobs.get(job_id) is None
    assert hold(later, job_id, False).code is Refusal.NOT_PERMITTED
