"""Elements of an array that begin when those with the same index of another one have ended well."""

import random

import pytest

from allocator.batch.job import BatchRecorded, RecordBatchJob
from allocator.jobs.corresponding import Corresponding
from native.errors import Refusal
from native.wire import batch
from native.wire.alloc import Freed
from native.wire.base import RANGES_MAX, After, AfterKind, Array, Dependency, State
from tests.unit.allocator.batch_disk import Disk
from tests.unit.allocator.partition_of import ALICE, YOD, pct, spec
from tests.unit.allocator.test_arrays import elements, handed_in, row
from tests.unit.allocator.test_backfill import Backfilled
from tests.unit.allocator.test_batch import BatchPartition, ended, of, said

FOUR = Array(((0, 3, 1),))


def corresponds(*arrays, **fields):
    on = tuple(After(AfterKind.CORRESPONDS, array) for array in arrays)
    return Dependency(on, **fields)


def finish(partition, job_id, state=State.COMPLETED):
    """An element has ended."""
    partition.receive(pct(0), batch.Started(job_id))
    partition.keep()
    partition.receive(pct(0), ended(job_id, state))
    partition.keep()
    partition.receive(pct(0), Freed(job_id, ((0, 1),)))
    partition.keep()


def job_of(partition, array, index):
    """The job of an element that has not ended."""
    (found,) = [job for job, each in elements(partition, array).items() if each == index]
    return found


def test_each_element_begins_when_that_of_its_index_has_ended_well():
    partition = Backfilled(slots=8)
    first = handed_in(partition, 1, array=FOUR)
    second = handed_in(partition, 1, array=FOUR, after=corresponds(first))
    assert elements(partition, second) == {}
    said_of = row(partition, second)
    assert said_of.reason == f"element 0 of job {first} is to end well first (aftercorr:{first})"
    for index in (2, 0, 3, 1):
        finish(partition, job_of(partition, first, index))
        assert index in elements(partition, second).values()
    assert sorted(elements(partition, second).values()) == [0, 1, 2, 3]
    assert partition.state(first) is None
    for index in range(4):
        array = partition.machine.batch.get(second)
        finish(partition, job_of(partition, second, index))
    assert array.state is State.COMPLETED


def test_one_whose_counterpart_ends_otherwise_never_begins_and_says_why():
    partition = Backfilled(slots=8)
    first = handed_in(partition, 1, array=FOUR)
    second = handed_in(partition, 1, array=FOUR, after=corresponds(first))
    finish(partition, job_of(partition, first, 1), State.FAILED)
    assert row(partition, second).left.text == "0,2-3"
    for index in (0, 2, 3):
        finish(partition, job_of(partition, first, index))
    for index in (0, 2, 3):
        array = partition.machine.batch.get(second)
        finish(partition, job_of(partition, second, index))
    failed = f"element 1 of job {first} has ended and was to end well (aftercorr:{first})"
    assert (array.state, array.reason) == (State.CANCELLED, failed)


def test_those_that_wait_for_slots_name_one_that_never_begins():
    partition = Backfilled(slots=1)
    first = handed_in(partition, 1, array=Array(((0, 1, 1),)))
    second = handed_in(partition, 1, array=Array(((0, 1, 1),)), after=corresponds(first))
    finish(partition, job_of(partition, first, 0), State.FAILED)
    finish(partition, job_of(partition, first, 1))
    assert elements(partition, second) != {} or "element 0 of job" in row(partition, second).reason
    array = partition.machine.batch.get(second)
    finish(partition, job_of(partition, second, 1))
    assert array.state is State.CANCELLED and "element 0 of job" in array.reason


def test_elements_that_are_missing_there_or_taken_back_never_begin():
    partition = Backfilled(slots=1)
    first = handed_in(partition, 1, array=FOUR)
    wider = Array(((0, 5, 1),))
    second = handed_in(partition, 1, array=wider, after=corresponds(first))
    assert row(partition, second).left.text == "0-3"
    partition.receive(YOD, batch.Cancel(first, Array(((1, 3, 1),))), ALICE)
    partition.keep()
    finish(partition, job_of(partition, first, 0))
    array = partition.machine.batch.get(second)
    finish(partition, job_of(partition, second, 0))
    says = f"job {first} has no element 4 that could end well (aftercorr:{first})"
    assert (array.state, array.reason) == (
        State.CANCELLED,
        f"{says}; 5 elements never begin",
    )


def test_the_counterparts_of_several_arrays_are_all_needed_and_other_jobs_as_well():
    partition = Backfilled(slots=8)
    one, two = (handed_in(partition, 1, array=Array(((0, 1, 1),))) for _ in range(2))
    job = handed_in(partition, 1)
    after = Dependency((*corresponds(one, two).on, After(AfterKind.OK, job)))
    last = handed_in(partition, 1, array=Array(((0, 1, 1),)), after=after)
    finish(partition, job_of(partition, one, 0))
    finish(partition, job_of(partition, two, 0))
    assert elements(partition, last) == {}
    assert row(partition, last).reason == f"job {job} is to end well first"
    finish(partition, job)
    assert list(elements(partition, last).values()) == [0]
    finish(partition, job_of(partition, two, 1))
    assert list(elements(partition, last).values()) == [0]
    assert f"element 1 of job {one} is to end" in row(partition, last).reason


def test_no_more_begin_at_once_than_their_user_wants():
    partition = Backfilled(slots=8)
    first = handed_in(partition, 1, array=FOUR)
    second = handed_in(partition, 1, array=Array(((0, 3, 1),), 1), after=corresponds(first))
    for index in (3, 1):
        finish(partition, job_of(partition, first, index))
    assert list(elements(partition, second).values()) == [3]
    assert row(partition, second).reason == "1 element at once"
    finish(partition, job_of(partition, second, 3))
    assert list(elements(partition, second).values()) == [1]


def test_an_array_that_has_ended_is_waited_for_no_more():
    partition = Backfilled(slots=8)
    first = handed_in(partition, 1, array=FOUR)
    for index, state in enumerate((State.COMPLETED, State.FAILED) * 2):
        finish(partition, job_of(partition, first, index), state)
    second = handed_in(partition, 1, array=FOUR, after=corresponds(first))
    assert list(elements(partition, second).values()) == [0, 2]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"after": corresponds(1)}, "aftercorr:1: elements of arrays wait so (-array)"),
        (
            {"after": corresponds(6), "array": FOUR},
            "aftercorr:6: job 6 is no array, or none of its elements has begun",
        ),
        (
            {"after": corresponds(1, is_any=True), "array": FOUR},
            "aftercorr:1: it goes with `,`, not with `?`",
        ),
        (
            {"after": corresponds(1), "array": Array(((7, 9, 1),))},
            "aftercorr:1: no element 7-9 is to end well there",
        ),
        (
            {"after": corresponds(1), "array": Array(((0, 0, 1),))},
            "aftercorr:1: no element 0 is to end well there",
        ),
    ],
)
def test_what_could_let_no_element_begin_is_refused_at_once(fields, says):
    partition = Backfilled(slots=5)
    first = handed_in(partition, 1, array=FOUR)
    finish(partition, job_of(partition, first, 0), State.FAILED)
    assert handed_in(partition, 1) == 6
    message = batch.Submit(bytes(16), spec(1), "a", 0.0, b"", **fields)
    (refused,) = said(partition.receive(YOD, message, ALICE))
    assert (refused.code, refused.text) == (Refusal.BAD_REQUEST, says)


def test_a_later_bebopd_knows_how_elements_have_ended():
    disk = Disk()
    partition = BatchPartition(1, 8)

    def keep():
        while partition.unkept:
            jobs, partition.unkept = partition.unkept, []
            disk.batch.keep(map(RecordBatchJob, jobs))
            partition.handle(BatchRecorded(tuple({job.job_id: job for job in jobs})))

    for number, fields in enumerate(({}, {"after": corresponds(1)})):
        disk.batch.keep(
            of(RecordBatchJob, partition.submit(1, number=number, array=FOUR, **fields))
        )
        keep()
    for job_id, state in ((2, State.COMPLETED), (3, State.FAILED)):
        for message in (batch.Started(job_id), ended(job_id, state)):
            partition.receive(pct(0), message)
            keep()
    found = disk.batch.earlier()
    assert found.elements == {1: {0: True, 1: False}}
    waits = next(job for job in found.jobs if job.job_id == 6)
    assert waits.after == corresponds(1)
    assert (waits.elements.left.text, waits.elements.lost) == ("2-3", 1)
    later = BatchPartition(1, 8, earlier=found, next_job_id=100)
    later.says(0, *(job.job_id for job in found.jobs if job.element is not None))
    assert (
        later.machine.batch.get(6).reason == "element 2 of job 1 is to end well first (aftercorr:1)"
    )
    disk.close()


def test_an_array_in_many_pieces_takes_those_at_their_ends_first():
    """So a row of it always fits in a message."""
    size = 4 * RANGES_MAX
    partition = Backfilled(slots=2 * size)
    first = handed_in(partition, 1, array=Array(((0, size - 1, 1),)))
    second = handed_in(partition, 1, array=Array(((0, size - 1, 1),)), after=corresponds(first))
    ends = [*range(1, size, 2), *range(0, size, 2)]
    for index in ends:
        state = State.FAILED if index % 3 == 0 else State.COMPLETED
        partition.checks = index % 16 == 0
        finish(partition, job_of(partition, first, index), state)
        left = partition.machine.batch.get(second).elements.left
        assert len(left.ranges) <= RANGES_MAX
    begun = set(elements(partition, second).values())
    assert begun == {index for index in range(size) if index % 3}


@pytest.mark.parametrize("seed", range(60))
def test_in_any_order_those_begin_whose_counterparts_have_ended_well_and_no_others(seed):
    choose = random.Random(seed)
    partition = Backfilled(slots=choose.randint(1, 6))
    indices = choose.sample(range(12), choose.randint(2, 8))
    array = Array(tuple((each, each, 1) for each in sorted(indices)))
    first = handed_in(partition, 1, array=array)
    wanted = Array(((0, choose.randint(3, 11), choose.randint(1, 3)),), choose.choice((0, 2)))
    asked = {"after": corresponds(first), "array": wanted}
    message = batch.Submit(bytes(15) + b"x", spec(1), "b", 0.0, b"", **asked)
    answer = said(partition.receive(YOD, message, ALICE))
    if answer:
        assert not set(indices).intersection(wanted.indices())
        return
    partition.keep()
    second = next(j.job_id for j in partition.machine.batch if j.elements and j.job_id != first)
    well, begun, begun_first = set(), set(), set()
    last = partition.machine.batch.get(second)
    while len(partition.machine.batch):
        for index in elements(partition, second).values():
            assert index in well, "before its counterpart has ended well"
            begun.add(index)
        begun_first.update(elements(partition, first).values())
        waits = partition.machine.batch.get(first)
        if waits is not None and waits.left and choose.random() < 0.1:
            index = choose.choice(list(waits.elements.left.indices()))
            partition.receive(YOD, batch.Cancel(first, Array(((index, index, 1),))), ALICE)
            partition.keep()
            continue
        last = partition.machine.batch.get(second) or last
        job = choose.choice([job for job in partition.machine.batch if job.element is not None])
        state = choose.choice((State.COMPLETED, State.COMPLETED, State.FAILED))
        if state is State.COMPLETED and job.element.array == first:
            well.add(job.element.index)
        finish(partition, job.job_id, state)
        check_anew(partition, second)
    assert begun == well.intersection(wanted.indices())
    is_cancelled = begun != set(wanted.indices())
    assert (last.state is State.CANCELLED) == is_cancelled


def check_anew(partition, job_id):
    """What is kept of an array is what is found when it is gone through again."""
    job = partition.machine.batch.get(job_id)
    known = partition.machine.batch.dependencies.corresponding
    if job is None or not job.left or job_id not in known._waiting:
        return
    anew = Corresponding(partition.machine.batch._jobs, known._ended)
    assert anew._of_job(job).ready == known._waiting[job_id].ready
