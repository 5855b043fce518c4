"""A job that waits for all earlier jobs of its name and user."""

import pytest

from allocator.batch.job import BatchRecorded, RecordBatchJob, StartBroker
from native.errors import Refusal
from native.wire import batch
from native.wire.alloc import NodeRequest, Refused
from native.wire.base import After, AfterKind, Dependency, State
from tests.unit.allocator.batch_disk import Disk
from tests.unit.allocator.partition_of import ALICE, BOB, YOD, pct, spec
from tests.unit.allocator.test_batch import BatchPartition, ended, of, said

SINGLETON = Dependency((), is_singleton=True)


def handed_in(partition, name="a", after=SINGLETON, principal=ALICE):
    number = len(partition.machine.batch) + 1
    token = bytes([number]) * batch.TOKEN_BYTES
    message = batch.Submit(token, spec(1), name, 0.0, b"task", after=after)
    partition.receive(YOD, message, principal)


def started(actions):
    return [each.job.job_id for each in of(StartBroker, actions)]


def end(partition, job_id):
    partition.receive(pct(partition.machine.batch.get(job_id).root), ended(job_id, State.FAILED))
    return started(partition.keep())


def test_it_begins_when_all_earlier_ones_of_its_name_have_ended_however():
    partition = BatchPartition(count=4)
    for after in (Dependency(()), Dependency(()), SINGLETON, SINGLETON):
        handed_in(partition, after=after)
    assert started(partition.keep()) == [1, 2]
    reason = partition.machine.batch.get(3).reason
    assert reason == "job 2, which has the same name, is to end first (singleton)"
    assert end(partition, 2) == []
    assert end(partition, 1) == [3]
    assert end(partition, 3) == [4]


def test_other_names_and_other_users_do_not_count():
    partition = BatchPartition(count=4)
    handed_in(partition)
    handed_in(partition, name="b")
    handed_in(partition, principal=BOB)
    assert started(partition.keep()) == [1, 2, 3]


def test_with_others_all_or_one_of_them_is_needed():
    partition = BatchPartition(count=4)
    handed_in(partition)
    handed_in(partition, name="b")
    assert started(partition.keep()) == [1, 2]
    on = (After(AfterKind.ENDED, 2),)
    handed_in(partition, after=Dependency(on, is_singleton=True))
    handed_in(partition, name="b", after=Dependency((After(AfterKind.ENDED, 1),), True, True))
    assert started(partition.keep()) == []
    assert end(partition, 1) == [4]
    assert end(partition, 2) == [3]


def test_an_earlier_one_that_the_disk_refuses_is_waited_for_no_more():
    partition = BatchPartition(count=4)
    handed_in(partition)
    handed_in(partition)
    partition.handle(BatchRecorded((2,)))
    partition.unkept.clear()
    assert started(partition.handle(BatchRecorded((1,), "no space"))) == []
    assert started(partition.keep()) == [2]


def test_it_outlives_bebopd():
    disk, partition = Disk(), BatchPartition()
    message = batch.Submit(bytes(batch.TOKEN_BYTES), spec(1), "a", 0.0, b"", after=SINGLETON)
    disk.batch.keep(of(RecordBatchJob, partition.receive(YOD, message, ALICE)))
    assert disk.batch.earlier().jobs[0].after == SINGLETON
    disk.close()


def test_what_has_no_name_is_refused_with_that_reason():
    partition = BatchPartition()
    request = NodeRequest((spec(1),), "a", after=SINGLETON)
    (refused,) = said(partition.receive(YOD, request, ALICE))
    assert isinstance(refused, Refused)
    assert (refused.code, refused.text) == (
        Refusal.BAD_REQUEST,
        "singleton: only batch jobs wait so",
    )


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_jobs_that_wait_behind_one_another_leave_in_any_order(order):
    partition = BatchPartition(count=4)
    for _ in range(3):
        handed_in(partition)
    assert started(partition.keep()) == [1]
    begun = []
    for job_id in order:
        if partition.machine.batch.get(job_id).state is State.PENDING:
            partition.receive(YOD, batch.Cancel(job_id), ALICE)
            begun += started(partition.keep())
        else:
            begun += end(partition, job_id)
    assert begun[-1] == 3
