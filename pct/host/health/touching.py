"""Touches the directories of a store, in a thread that may hang in their stead."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from native.loop.aside import Aside
from native.loop.reactor import Owner, Reactor
from native.machine import Action, DeadlineReached, Event
from native.text import shown
from pct.touch import Answer, Hang, StoreTouch, Touch, Touched, Wanted

END_S = 0.5  # for a touch that is under way when the pct ends


class Touching:
    """What is known of the store of this node, from now on.

    Args:
        limit_s: within this a directory takes a byte.
        pause: has removals from the store rest, or go on.
        tell: takes why the node is lost to jobs; empty: it is well again.
        touch: writes to a directory.
    """

    def __init__(
        self,
        reactor: Reactor,
        directories: Sequence[str],
        limit_s: float,
        *,
        pause: Callable[[bool], None],
        tell: Callable[[str], None],
        touch: Callable[[str], None] | None = None,
    ) -> None:
        self._machine = StoreTouch(limit_s, reactor.monotonic())
        self._reactor = reactor
        self._directories = directories
        self._limit_s = limit_s
        self._pause = pause
        self._tell = tell
        self._touch = touch or _touch
        self._at = ""  # the directory that is being touched; the thread writes it
        self._waiting: list[tuple[Owner | None, Callable[[], None]]] = []
        self._trouble = ""
        # From the start: the pct has as many descriptors before its first job as after it.
        self._aside = Aside(reactor, "yod-store") if limit_s else None
        self._timer = reactor.timer(lambda: self._handle(DeadlineReached()))
        self._timer.set(self._machine.deadline())

    def want(self, then: Callable[[], None]) -> None:
        """Call, for the present owner, when the store has answered."""
        self._waiting.append((self._reactor.owner, then))
        self._handle(Wanted())

    def looks(self, others: Callable[[], Iterator[str]]) -> Iterator[str]:
        """What hangs, else what others see who look at the same directories."""
        yield self._trouble
        yield from others()

    def close(self) -> None:
        """Touch nothing more."""
        self._timer.close()
        if self._aside is not None:
            self._aside.close(END_S)

    def _handle(self, event: Event) -> None:
        actions = self._machine.handle(event, self._reactor.monotonic())
        self._timer.set(self._machine.deadline())
        for action in actions:
            self._perform(action)

    def _perform(self, action: Action) -> None:
        match action:
            case Touch():
                assert self._aside is not None
                self._aside.give(self._touch_all, lambda _: self._handle(Touched()))
            case Answer(is_back):
                if is_back:
                    self._trouble = ""
                    self._pause(False)
                    self._tell("")
                waiting, self._waiting = self._waiting, []
                for owner, then in waiting:
                    self._reactor.run_for(owner, then)
            case Hang():
                self._waiting.clear()  # their jobs end
                took = f"{self._limit_s:g} s (YOD_STORE_ANSWER_S)"
                self._trouble = f"hangs: a write to {shown(self._at)} has not ended in {took}"
                self._pause(True)
                self._reactor.run_for(None, partial(self._tell, self._trouble))
            case _:
                raise AssertionError(f"no case for {action!r}")

    def _touch_all(self) -> None:
        for directory in self._directories:
            self._at = directory
            self._touch(directory)


def _touch(directory: str) -> None:
    """Write a byte to a file that has no name. A refusal is an answer, too."""
    with suppress(OSError):
        fd = os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, b"\0")
        finally:
            os.close(fd)
        return
    with suppress(OSError):  # its file system has no files without a name
        os.utime(directory)
