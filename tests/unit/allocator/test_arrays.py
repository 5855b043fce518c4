"""Arrays of batch jobs: one row in the line, a job for each element that begins."""

import pytest

from allocator.batch.job import BatchRecorded, RecordBatchJob, SendRows
from native.errors import Refusal
from native.machine import DeadlineReached
from native.wire import batch, codec
from native.wire.alloc import Freed
from native.wire.base import After, AfterKind, Array, Dependency, Element, JobEnd, State
from tests.unit.allocator.batch_disk import Disk
from tests.unit.allocator.partition_of import ALICE, YOD, pct, spec
from tests.unit.allocator.test_backfill import HOUR_S, Backfilled
from tests.unit.allocator.test_batch import BatchPartition, ended, of, said


def handed_in(partition, *words, **fields):
    """The id of a job or an array, and not of an element that has begun with it."""
    before = {job.job_id for job in partition.machine.batch}
    partition.job(*words, **fields)
    return min({job.job_id for job in partition.machine.batch} - before)


def elements(partition, array):
    """The indices of the elements that have not ended, by their jobs."""
    jobs = (job for job in partition.machine.batch if job.element is not None)
    return {job.job_id: job.element.index for job in jobs if job.element.array == array}


def row(partition, job_id):
    (answer,) = partition.receive(YOD, batch.Ask((job_id,)), ALICE)
    return answer.rows[0]


def test_elements_begin_in_order_while_there_is_room_and_the_rest_stays_one_row():
    partition = Backfilled(slots=3)
    array = handed_in(partition, 1, array=Array(((0, 9, 1),)))
    assert elements(partition, array) == {2: 0, 3: 1, 4: 2}
    assert row(partition, array).left.text == "3-9"
    assert row(partition, array).state is State.PENDING
    assert row(partition, 3).element == Element(array, 1)
    assert row(partition, 3).name == "a[1]"
    partition.end(3)
    assert elements(partition, array) == {2: 0, 4: 2, 5: 3}


def test_no_more_run_at_once_than_their_user_wants():
    partition = Backfilled(slots=4)
    array = handed_in(partition, 1, array=Array(((0, 3, 1),), 2))
    assert list(elements(partition, array).values()) == [0, 1]
    assert "2 elements at once" in row(partition, array).reason
    partition.end(2)
    assert list(elements(partition, array).values()) == [1, 2]


def test_an_array_keeps_its_place_before_those_that_came_later():
    partition = Backfilled(slots=1)
    array = handed_in(partition, 1, HOUR_S, array=Array(((0, 1, 1),)))
    later = handed_in(partition, 1, HOUR_S)
    partition.end(array + 1)
    assert list(elements(partition, array).values()) == [1]
    assert partition.state(later) is State.PENDING


@pytest.mark.parametrize("ends", [State.COMPLETED, State.FAILED])
def test_an_array_ends_with_its_last_element_and_well_if_all_did(ends):
    partition = Backfilled(slots=2)
    array = handed_in(partition, 1, array=Array(((5, 6, 1),)))
    after = Dependency((After(AfterKind.OK, array),))
    dependent = handed_in(partition, 1, after=after)
    assert row(partition, array).state is State.RUNNING
    for element, state in ((2, State.COMPLETED), (3, ends)):
        assert partition.state(array) is State.PENDING
        for message in (batch.Started(element), ended(element, state)):
            partition.receive(pct(0), message)
            partition.keep()
        partition.receive(pct(0), Freed(element, ((0, 1),)))
        partition.keep()
    assert partition.state(array) is None
    assert partition.has_slots(dependent) == [ends is State.COMPLETED]


def test_who_waits_for_an_array_hears_when_all_of_it_is_over_and_the_worst_exit_status():
    partition = BatchPartition(1, 2)
    partition.submit(1, array=Array(((0, 1, 1),)))
    partition.keep()
    partition.receive(YOD, batch.Ask((1,), waits=True), ALICE)
    answers = []
    for element, status in ((2, 7), (3, 4)):
        assert answers == []
        end = codec.encode_part(JobEnd(State.FAILED, status, 0, ""))
        for message in (batch.Started(element), batch.BrokerEnded(element, 0, end)):
            partition.receive(pct(0), message)
            array = partition.machine.batch.get(1)
            answers += of(SendRows, partition.keep())
    assert [answer.others for answer in answers] == [(1,)]
    assert (array.state, array.exit_status) == (State.FAILED, 7)
    assert array.reason == "2 of 2 elements did not end well"


def test_cancelling_an_array_ends_its_elements_and_begins_no_more():
    partition = Backfilled(slots=2)
    array = handed_in(partition, 1, array=Array(((0, 9, 1),)))
    partition.receive(pct(0), batch.Started(2))
    partition.receive(pct(0), batch.Started(3))
    partition.keep()
    actions = partition.receive(YOD, batch.Cancel(array), ALICE)
    assert [m.job_id for m in said(actions) if isinstance(m, batch.EndBroker)] == [2, 3]
    partition.keep()
    for job_id in (2, 3):
        partition.receive(pct(0), ended(job_id, State.CANCELLED))
        partition.keep()
    assert partition.state(array) is None
    assert len(partition.machine.batch) == 0


def test_elements_that_have_not_begun_are_cancelled_by_their_indices():
    partition = Backfilled(slots=2)
    array = handed_in(partition, 1, array=Array(((0, 9, 3), (20, 22, 1))))
    assert elements(partition, array) == {2: 0, 3: 3}
    actions = partition.receive(YOD, batch.Cancel(array, Array(((3, 21, 1),))), ALICE)
    assert said(actions) == [batch.Done(array)]
    assert row(partition, array).left.text == "22"
    assert elements(partition, array) == {2: 0, 3: 3}
    partition.keep()
    partition.end(2)
    assert elements(partition, array) == {3: 3, 4: 22}


def test_an_array_whose_last_elements_are_cancelled_ends_by_those_that_ran():
    partition = Backfilled(slots=1)
    array = handed_in(partition, 1, array=Array(((0, 2, 1),)))
    partition.receive(YOD, batch.Cancel(array, Array(((1, 2, 1),))), ALICE)
    partition.keep()
    assert row(partition, array).reason == "all elements have begun"
    partition.end(2)
    assert partition.state(array) is None
    assert len(partition.machine.batch) == 0


def test_an_array_of_which_no_element_ran_is_cancelled_with_the_last():
    partition = Backfilled(slots=1)
    handed_in(partition, 1, HOUR_S)
    array = handed_in(partition, 1, array=Array(((0, 1, 1),)))
    for index in (0, 1):
        partition.receive(YOD, batch.Cancel(array, Array(((index, index, 1),))), ALICE)
    job = partition.machine.batch.get(array)
    assert (job.state, job.reason) == (State.CANCELLED, "by alice")


@pytest.mark.parametrize("wanted", [((0, 0, 1),), ((7, 9, 1),)])
def test_elements_that_do_not_wait_are_not_cancelled_so(wanted):
    partition = Backfilled(slots=1)
    array = handed_in(partition, 1, array=Array(((0, 2, 1),)))
    answer = said(partition.receive(YOD, batch.Cancel(array, Array(wanted)), ALICE))
    assert [each.code for each in answer] == [Refusal.UNKNOWN_JOB]
    assert row(partition, array).left.text == "1-2"


def test_too_many_pieces_of_an_array_are_refused():
    partition = Backfilled(slots=1)
    array = handed_in(partition, 1, array=Array(((0, 999, 1),)))
    answer = said(partition.receive(YOD, batch.Cancel(array, Array(((1, 999, 2),))), ALICE))
    assert [each.code for each in answer] == [Refusal.BAD_REQUEST]
    assert row(partition, array).left.text == "1-999"


def test_a_deadline_keeps_the_elements_that_have_not_begun_from_it():
    partition = Backfilled(slots=1)
    now = partition.now + 5000.5
    array = handed_in(partition, 1, 60.0, array=Array(((0, 1, 1),)), deadline=now + 90)
    partition.now += 31
    partition.handle(DeadlineReached())
    partition.keep()
    assert row(partition, array).left.count == 0
    partition.end(2)
    assert partition.state(array) is None


def test_sizes_that_cannot_be_are_refused():
    partition = Backfilled()
    for array in (Array(()), Array(((3, 1, 1),)), Array(((0, 5, 1), (5, 6, 1)))):
        message = batch.Submit(bytes(16), spec(1), "a", 0.0, b"", array=array)
        (refused,) = said(partition.receive(YOD, message, ALICE))
        assert refused.code is Refusal.BAD_REQUEST
    message = batch.Submit(bytes(16), spec(1), "a", 0.0, b"", array=Array(((0, 100_000, 1),)))
    (refused,) = said(partition.receive(YOD, message, ALICE))
    assert "YOD_ARRAY_COUNT" in refused.text


def test_the_disk_learns_of_an_element_and_of_what_is_left_in_one_commit():
    disk = Disk()
    partition = BatchPartition(1, 1)
    actions = partition.submit(1, array=Array(((0, 4, 2),)))
    disk.batch.keep(of(RecordBatchJob, actions))
    actions = partition.keep()
    written = of(RecordBatchJob, actions)
    assert [each.job.job_id for each in written] == [2]
    disk.batch.keep(written)
    array, element = disk.batch.earlier().jobs
    assert array.elements.left.text == "2-4:2"
    assert element.element == Element(1, 0)
    assert disk.batch.task(2) == disk.batch.task(1) == b"task"
    disk.close()


def test_a_deadline_that_passes_while_the_last_elements_run_is_none_of_the_arrays_business():
    partition = Backfilled(slots=2)
    deadline = partition.now + 5000.5 + 90
    array = handed_in(partition, 1, 60.0, array=Array(((0, 1, 1),)), deadline=deadline)
    partition.now += 40
    for element in (2, 3):
        for message in (batch.Started(element), ended(element)):
            partition.receive(pct(0), message)
            last = partition.machine.batch.get(array)
            partition.keep()
        partition.receive(pct(0), Freed(element, ((0, 1),)))
        partition.keep()
    assert partition.state(array) is None
    assert last.state is State.COMPLETED


def test_an_array_whose_elements_are_limited_keeps_its_place():
    partition = Backfilled(slots=2)
    array = handed_in(partition, 2, HOUR_S, array=Array(((0, 2, 1),), 1))
    partition.now += 1
    later = handed_in(partition, 2, HOUR_S)
    partition.end(2)
    assert partition.state(later) is State.PENDING
    assert list(elements(partition, array).values()) == [1]


def test_what_an_array_has_waited_for_may_be_forgotten():
    partition = Backfilled(slots=1)
    first = handed_in(partition, 1)
    after = Dependency((After(AfterKind.ENDED, first),))
    array = handed_in(partition, 1, array=Array(((0, 1, 1),)), after=after)
    partition.end(first)
    (begun,) = elements(partition, array)
    partition.machine.batch.dependencies._outcomes.clear()
    partition.end(begun)
    assert list(elements(partition, array).values()) == [1]


def test_many_elements_that_begin_together_are_written_once_each():
    disk = Disk()
    partition = BatchPartition(1, 64)
    disk.batch.keep(of(RecordBatchJob, partition.submit(1, array=Array(((0, 63, 1),)))))
    written = of(RecordBatchJob, partition.keep())
    assert len(written) == 64
    statements = []
    disk.batch._write = statements.extend
    disk.batch.keep(written)
    assert len(statements) == 65
    disk.close()


def test_a_disk_that_refuses_gives_an_array_a_pause():
    partition = BatchPartition(1, 1)
    partition.submit(1, array=Array(((0, 9, 1),)))
    partition.handle(BatchRecorded((1,)))
    assert len(elements(partition, 1)) == 1
    partition.unkept.clear()
    partition.handle(BatchRecorded((2,), "no space left on device"))
    assert elements(partition, 1) == {2: 0}
