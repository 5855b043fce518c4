"""Arrays of batch jobs: one job that is handed in, and many elements that run. Pure.

An array waits in the line as one request, and is one row to users. Each time that slots are
given to it, its next element becomes a job of its own, with a new id; the array stays in its
place while elements are left. It ends when all of its elements have ended.

The disk learns in one commit that an element has slots and that the array has one less left, so
no element runs twice, whatever happens to bebopd.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from allocator.batch.job import BatchJob, Elements, Fate, RecordEvent
from allocator.batch.queue import Queue
from allocator.jobs.assign import RequestRefused
from allocator.jobs.corresponding import Corresponding
from native.errors import Refusal
from native.machine import Action
from native.text import plural
from native.waitstatus import SIGNAL_BASE
from native.wire.base import NAME_MAX, NO_DEPENDENCY, RANGES_MAX, Array, Element, State


class Arrays:
    """The elements that have not ended, by their arrays.

    Args:
        jobs: those that have not ended, by id.
        corresponding: what elements wait for in those of other arrays.
    """

    def __init__(self, jobs: Mapping[int, BatchJob], corresponding: Corresponding) -> None:
        self._jobs = jobs
        self._corresponding = corresponding
        self._living: defaultdict[int, set[int]] = defaultdict(set)
        for job in jobs.values():
            if job.element is not None:
                job.of = jobs[job.element.array]
                self._living[job.element.array].add(job.job_id)

    def check(self) -> None:
        """Assert what must always hold."""
        jobs = self._jobs
        elements = {(job.element.array, job.job_id) for job in jobs.values() if job.element}
        assert elements == {(array, each) for array, some in self._living.items() for each in some}
        for array, living in self._living.items():
            job = jobs[array]
            assert job.elements is not None and living
            assert not job.state.is_final, f"array {array} ended before its elements"
            at_once = job.elements.left.at_once
            assert not at_once or len(living) <= at_once, f"array {array} has too many at once"

    def of(self, job: BatchJob) -> list[int]:
        """The elements of an array that have not ended, ids ascending; of another job none."""
        return sorted(self._living.get(job.job_id, ()))

    def room(self, job: BatchJob) -> int:
        """How many times a job may be given slots now: an array once for each element."""
        if job.elements is None:
            return 1
        left = job.elements.left
        most = self._corresponding.room(job) if job.after.on else left.count
        if not left.at_once:
            return most
        return max(0, min(most, left.at_once - len(self._living.get(job.job_id, ()))))

    def why_none(self, job: BatchJob) -> str:
        """What an array waits for of which no more elements may run now."""
        if job.left and job.after.on and not self._corresponding.room(job):
            return self._corresponding.text(job)
        return full(job)

    def lost(self, job: BatchJob) -> str:
        """Take away what never begins by the elements of others; why, empty: nothing was."""
        if job.elements is None or not job.after.on or not self._corresponding.look(job):
            return ""
        assert job.elements.fate is not None
        return job.elements.fate.text + _others(job.elements)

    def begin(self, array: BatchJob, job_id: int) -> BatchJob:
        """The next element of an array, as a job that waits and is next."""
        assert array.elements is not None
        index = next(array.elements.left.indices())
        if array.after.on:
            index = self._corresponding.take(array)
        array.elements.left = array.elements.left.without_one(index)
        self._living[array.job_id].add(job_id)
        if not self.room(array):
            array.reason = self.why_none(array)
        suffix = f"[{index}]"
        element = BatchJob(
            job_id=job_id,
            uid=array.uid,
            owner=array.owner,
            name=array.name[: NAME_MAX - len(suffix)] + suffix,
            token=b"",
            spec=array.spec,
            time_s=array.time_s,
            submitted=array.submitted,
            after=NO_DEPENDENCY,
            is_exclusive=array.is_exclusive,
            deadline=array.deadline,
            terms=array.terms,
            priority=array.priority,
            element=Element(array.job_id, index),
            of=array,
            is_recorded=True,  # with its grant
        )
        array.unwritten[job_id] = element
        return element

    def ended(self, element: BatchJob) -> None:
        """An element has ended; the disk is told of both together."""
        array = element.of
        assert array is not None and array.elements is not None
        array.unwritten[element.job_id] = element
        if element.state is State.COMPLETED:
            array.elements.well += 1
            return
        array.elements.failed += 1
        signalled = SIGNAL_BASE + element.signal if element.signal else 0
        array.elements.worst = max(array.elements.worst, element.exit_status, signalled, 1)

    def recorded(self, jobs: Iterable[BatchJob]) -> None:
        """The disk knows these as they are."""
        for job in jobs:
            if job.of is not None:
                job.of.unwritten.pop(job.job_id, None)

    def gone(self, element: BatchJob) -> None:
        """The disk knows of an element's end."""
        assert element.element is not None
        living = self._living[element.element.array]
        living.discard(element.job_id)
        if not living:
            del self._living[element.element.array]

    def give_up(self, job: BatchJob, fate: Fate) -> bool:
        """A job does not begin, or no more of it does; whether it has ended with that."""
        if job.elements is None:
            return True
        job.elements.left = NOTHING_LEFT
        job.elements.fate = job.elements.fate or fate
        return not self._living.get(job.job_id)

    def withdrawn(self, job: BatchJob, only: Array, by: str, queue: Queue) -> Action:
        """Elements of an array do not begin; those that have begun are not among them.

        Returns:
            What is said of it.

        Raises:
            RequestRefused: none of them waits, or what is left has too many pieces.
        """
        elements = job.elements
        gone = sorted(set(elements.left.indices()).intersection(only.indices())) if elements else []
        if elements is None or not gone:
            text = f"job {job.job_id}: none of the elements {only.text} waits"
            raise RequestRefused(Refusal.UNKNOWN_JOB, text)
        left = elements.left.without(frozenset(gone))
        if len(left.ranges) > RANGES_MAX:
            text = f"job {job.job_id}: its elements would be in more than {RANGES_MAX} ranges"
            raise RequestRefused(Refusal.BAD_REQUEST, text)
        elements.left = left
        self._corresponding.discard(job.job_id)  # it is gone through again
        if not left.count:
            queue.withdraw(job.job_id)
        if not (left.count or elements.well or elements.failed or self.of(job)):
            elements.fate = Fate(State.CANCELLED, f"by {by}")
        return RecordEvent(job.job_id, f"elements {only.text} cancelled by {by}")

    def fate(self, job: BatchJob) -> Fate | None:
        """How an array ends now; None: it does not, or it is none."""
        if job.elements is None or job.elements.left.count or self._living.get(job.job_id):
            return None
        if (fate := job.elements.fate) is not None:
            return Fate(fate.state, fate.text + _others(job.elements))
        if not (failed := job.elements.failed):
            return Fate(State.COMPLETED, "")
        of = plural(failed + job.elements.well, "element")
        return Fate(State.FAILED, f"{failed} of {of} did not end well")


NOTHING_LEFT = Array(())


def full(array: BatchJob) -> str:
    """What an array waits for of which no more elements may run now."""
    if array.elements is None or not array.left:
        return "all elements have begun"
    return f"{plural(array.elements.left.at_once, 'element')} at once"


def _others(elements: Elements) -> str:
    """That more than one never begin by the elements of others."""
    return f"; {elements.lost} elements never begin" if elements.lost > 1 else ""
