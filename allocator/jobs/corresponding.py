"""Elements of an array that wait for those with the same index of other arrays (``aftercorr``).

One whose counterparts have all ended well is *ready*. One is *lost* that never will be: a
counterpart has ended otherwise, was taken back, or never was. How elements have ended is on the
disk, and is told here as it comes; so what an array waits for is not gone through each time. Pure.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Protocol

from msgspec import Struct

from allocator.jobs.assign import RequestRefused
from native.errors import Refusal
from native.wire.base import NO_DEPENDENCY, RANGES_MAX, AfterKind, Array, Dependency, Element, State


class Elements(Protocol):
    """Those of an array.

    Attributes:
        left: that have not begun.
    """

    left: Array

    def lose(self, text: str) -> None:
        """One of them never begins."""


class Job(Protocol):
    """A batch job.

    Attributes:
        after: the jobs that it waits for.
        elements: of an array.
        element: which one of which array it is.
    """

    @property
    def job_id(self) -> int: ...

    @property
    def state(self) -> State: ...

    @property
    def after(self) -> Dependency: ...

    @property
    def elements(self) -> Elements | None: ...

    @property
    def element(self) -> Element | None: ...


class _Waiting(Struct):
    """The elements of an array that have not begun, as far as others decide about them.

    Attributes:
        on: the arrays with their counterparts.
        ready: indices, ascending.
        lost: why they never begin, by index.
    """

    on: tuple[int, ...]
    ready: list[int]
    lost: dict[int, str]


class Corresponding:
    """Which elements may begin by those of other arrays.

    Args:
        jobs: those that have not ended, by id.
        ended: how elements have ended: whether well, by array and index.
    """

    def __init__(self, jobs: Mapping[int, Job], ended: Mapping[int, Mapping[int, bool]]) -> None:
        self._jobs = jobs
        self._ended = {array: dict(some) for array, some in ended.items()}
        self._waiting: dict[int, _Waiting] = {}

    def check(self) -> None:
        """Assert what must always hold."""
        for job_id, waiting in self._waiting.items():
            assert waiting.ready == sorted(set(waiting.ready)), job_id
            assert not waiting.lost.keys() & set(waiting.ready), job_id
            elements = self._jobs[job_id].elements
            assert elements is not None and all(each in elements.left for each in waiting.ready)
            ended = [self._ended.get(array, {}) for array in waiting.on]
            assert all(some.get(index) for some in ended for index in waiting.ready), job_id

    def demand_possible(self, dependency: Dependency, array: Array | None) -> None:
        """Refuse what goes between no arrays, or could let no element begin.

        Args:
            array: the elements that are to wait; None: the job is no array.

        Raises:
            RequestRefused: the text names the job.
        """
        for each in corresponding(dependency):
            said = f"{AfterKind.CORRESPONDS.value}:{each}"
            job = self._jobs.get(each)
            if array is None:
                text = f"{said}: elements of arrays wait so (-array)"
            elif dependency.is_any:
                text = f"{said}: it goes with `,`, not with `?`"
            elif each not in self._ended and (job is None or job.elements is None):
                text = f"{said}: job {each} is no array, or none of its elements has begun"
            elif all(self._lost_by(each, array.indices())):
                text = f"{said}: no element {array.text} is to end well there"
            else:
                continue
            raise RequestRefused(Refusal.BAD_REQUEST, text)

    def ended(self, job: Job) -> None:
        """The disk knows how an element, or an array, has ended."""
        if job.element is not None:
            array, index = job.element.array, job.element.index
            is_well = self._ended.setdefault(array, {})[index] = job.state is State.COMPLETED
            for job_id in self._of(array):
                waiting, elements = self._waiting[job_id], self._jobs[job_id].elements
                if elements is None or index not in elements.left:
                    continue
                if not is_well:
                    waiting.lost.setdefault(index, _failed(array, index))
                elif self._is_ready(waiting.on, index):
                    insort(waiting.ready, index)
        elif job.elements is not None:  # its elements that have not begun never will
            for job_id in self._of(job.job_id):
                del self._waiting[job_id]

    def forget(self, array: int) -> None:
        """Nobody asks any more how the elements of an array have ended."""
        self._ended.pop(array, None)

    def discard(self, job_id: int) -> None:
        """What an array has left is another, or it waits for no others."""
        self._waiting.pop(job_id, None)

    def look(self, job: Job) -> bool:
        """Take the lost elements of an array from those that are left; whether there were any.

        A few may stay for some time, where the others would be in too many pieces.
        """
        waiting, elements = self._of_job(job), job.elements
        assert elements is not None
        before = len(waiting.lost)
        for index in sorted(waiting.lost):
            if len(elements.left.ranges) == RANGES_MAX:
                break
            _lose(waiting, elements, index)
        while lost := [each for each in _ends(elements.left) if each in waiting.lost]:
            for index in lost:
                _lose(waiting, elements, index)
        return len(waiting.lost) < before

    def room(self, job: Job) -> int:
        """How many elements may begin, as far as others decide; some more, if any, later."""
        waiting, elements = self._of_job(job), job.elements
        assert elements is not None
        pieces = RANGES_MAX - len(elements.left.ranges)
        if pieces > 0:
            return min(len(waiting.ready), pieces)
        return int(any(_is_in(waiting.ready, index) for index in _ends(elements.left)))

    def take(self, job: Job) -> int:
        """The next element that may begin; there is one. It is ready no more."""
        waiting, elements = self._of_job(job), job.elements
        assert elements is not None
        is_free = len(elements.left.ranges) < RANGES_MAX
        ends = (each for each in _ends(elements.left) if _is_in(waiting.ready, each))
        index = waiting.ready[0] if is_free else next(ends)
        del waiting.ready[bisect_left(waiting.ready, index)]
        return index

    def text(self, job: Job) -> str:
        """What the first element that is not ready waits for."""
        waiting, elements = self._of_job(job), job.elements
        assert elements is not None
        for index in elements.left.indices():
            for array in waiting.on:
                if not self._ended.get(array, {}).get(index):
                    return f"element {index} of job {array} is to end well first ({_said(array)})"
        return ""

    def _of_job(self, job: Job) -> _Waiting:
        """How the elements of an array stand; it is gone through once."""
        if (waiting := self._waiting.get(job.job_id)) is not None:
            return waiting
        assert job.elements is not None
        waiting = _Waiting(corresponding(job.after), [], {})
        left = job.elements.left
        for array in waiting.on:
            for index, text in zip(
                left.indices(), self._lost_by(array, left.indices()), strict=True
            ):
                if text:
                    waiting.lost.setdefault(index, text)
        waiting.ready = [each for each in left.indices() if self._is_ready(waiting.on, each)]
        self._waiting[job.job_id] = waiting
        return waiting

    def _lost_by(self, array: int, indices: Iterable[int]) -> Iterator[str]:
        """Why each of these elements never begins, by those of an array; empty: it may."""
        ended, job = self._ended.get(array, {}), self._jobs.get(array)
        to_end = frozenset[int]()
        if job is not None and job.elements is not None:
            living = filter(None, (each.element for each in self._jobs.values()))
            to_end = frozenset(job.elements.left.indices())
            to_end |= {each.index for each in living if each.array == array}
        for index in indices:
            if index in ended:
                yield "" if ended[index] else _failed(array, index)
            elif index in to_end:
                yield ""
            else:
                yield f"job {array} has no element {index} that could end well ({_said(array)})"

    def _is_ready(self, on: Collection[int], index: int) -> bool:
        return all(self._ended.get(array, {}).get(index) for array in on)

    def _of(self, array: int) -> list[int]:
        """The arrays that wait for the elements of one."""
        return [each for each, waiting in self._waiting.items() if array in waiting.on]


def corresponding(dependency: Dependency) -> tuple[int, ...]:
    """The arrays whose elements those of another wait for, each once."""
    kind = AfterKind.CORRESPONDS
    return tuple(dict.fromkeys(each.job_id for each in dependency.on if each.kind is kind))


def of_elements(dependency: Dependency) -> Dependency:
    """What is left of a dependency when all is met but what elements wait for."""
    on = tuple(each for each in dependency.on if each.kind is AfterKind.CORRESPONDS)
    return Dependency(on) if on else NO_DEPENDENCY


def _lose(waiting: _Waiting, elements: Elements, index: int) -> None:
    elements.left = elements.left.without_one(index)
    elements.lose(waiting.lost.pop(index))


def _ends(left: Array) -> Iterator[int]:
    """Those that leave no more pieces behind, ascending."""
    for first, last, step in left.ranges:
        yield from sorted({first, first + (last - first) // step * step})


def _is_in(ascending: list[int], index: int) -> bool:
    place = bisect_left(ascending, index)
    return place < len(ascending) and ascending[place] == index


def _failed(array: int, index: int) -> str:
    return f"element {index} of job {array} has ended and was to end well ({_said(array)})"


def _said(array: int) -> str:
    return f"{AfterKind.CORRESPONDS.value}:{array}"
