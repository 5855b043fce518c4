"""Waiting for states, in the application's thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from native.errors import UsageError, YodError
from yod.pilot.client.loop import Loop
from yod.pilot.model.states import FINAL, Course


class Awaited(Protocol):
    """A task or a pilot."""

    uid: str
    state: str
    waiters: int


class Service(Awaited, Protocol):
    """A task that says something of itself."""

    info: str


def states_of(asked: object, course: Course) -> tuple[str, ...]:
    """The states that are waited for; the final ones where none is named.

    Raises:
        UsageError: there is no such state.
    """
    if not asked:
        return FINAL
    named: Iterable[object] = asked if isinstance(asked, list | tuple | set) else [asked]
    for state in named:
        if state not in course.values:
            raise UsageError(f"there is no state {state!r}; known are {', '.join(course.values)}")
    return tuple(map(str, named))


def wait(
    loop: Loop,
    each: Sequence[Awaited],
    wanted: tuple[str, ...],
    course: Course,
    timeout: float | None,
) -> None:
    """Wait until all have been in one of the states, or are over, or the time is.

    The last one is waited for first: mostly the others are over then, too.
    """
    until = _until(timeout)
    for one in reversed(each):
        is_there = partial(_has_reached, one, wanted, course)
        if not is_there() and not _wait(loop, one, is_there, until):
            return


def wait_for_info(loop: Loop, task: Service, timeout: float | None) -> None:
    """Wait until a service has said something of itself.

    Raises:
        YodError: it is over before, or the time is.
    """
    if not _wait(loop, task, lambda: bool(task.info) or task.state in FINAL, _until(timeout)):
        raise YodError(f"{task.uid} has said nothing of itself in {timeout:g} s")
    if not task.info:
        raise YodError(f"{task.uid} is {task.state}, and has said nothing of itself")


def _until(timeout: float | None) -> float | None:
    """The monotonic time at which a time-out in seconds is over."""
    return None if timeout is None else time.monotonic() + timeout


def _has_reached(one: Awaited, wanted: tuple[str, ...], course: Course) -> bool:
    return course.has_reached(one.state, wanted)


def _wait(loop: Loop, one: Awaited, is_there: Callable[[], bool], until: float | None) -> bool:
    """Wait for what the loop's thread does with a task or pilot; False: the time is over.

    Args:
        until: monotonic time; None: as long as it takes.
    """
    with loop.changed:
        one.waiters += 1
        try:
            while not is_there():
                loop.check()
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    return False
                loop.changed.wait(left)
        finally:
            one.waiters -= 1
    return True
