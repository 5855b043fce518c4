"""Waiting for states, in the application's thread."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Protocol

from native.errors import UsageError, YodError
from yod.pilot.client.loop import Loop
from yod.pilot.model.states import FINAL, Course


class Awaited(Protocol):
    """A task or a pilot."""

    uid: str
    state: str
    is_awaited: bool


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
    changed = loop.changed
    until = None if timeout is None else time.monotonic() + timeout
    for one in reversed(each):
        if course.has_reached(one.state, wanted):
            continue
        with changed:
            one.is_awaited = True
            try:
                while not course.has_reached(one.state, wanted):
                    loop.check()
                    left = None if until is None else until - time.monotonic()
                    if left is not None and left <= 0:
                        return
                    changed.wait(left)
            finally:
                one.is_awaited = False


def wait_for_info(loop: Loop, task: Service, timeout: float | None) -> None:
    """Wait until a service has said something of itself.

    Raises:
        YodError: it is over before, or the time is.
    """
    until = None if timeout is None else time.monotonic() + timeout
    with loop.changed:
        task.is_awaited = True
        try:
            while not task.info:
                loop.check()
                if task.state in FINAL:
                    raise YodError(f"{task.uid} is {task.state}, and has said nothing of itself")
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    raise YodError(f"{task.uid} has said nothing of itself in {timeout:g} s")
                loop.changed.wait(left)
        finally:
            task.is_awaited = False
