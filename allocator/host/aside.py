"""Work that waits for the disk: done at once, or beside the loop that decides."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from allocator.records import LedgerError
from native.loop import aside
from native.loop.reactor import Reactor
from native.machine import fault_text

MOST_COUNT = 1024  # pieces that wait
ENDS_S = 10.0  # a disk that answers later than this is not waited for at the end

T = TypeVar("T")


class AtOnce:
    """Does each piece at once: nobody else waits in this process."""

    def give(self, work: Callable[[], T], then: Callable[[T | LedgerError], None]) -> None:
        """Do a piece of work; ``then`` is called with its result."""
        then(_done(work))

    def close(self) -> None:
        """Nothing is left to do."""


class Aside:
    """A thread for work that waits."""

    def __init__(self, reactor: Reactor) -> None:
        self._thread = aside.Aside(reactor, "history")

    def give(self, work: Callable[[], T], then: Callable[[T | LedgerError], None]) -> None:
        """Have a piece of work done; ``then`` is called in the loop with its result."""
        if self._thread.count >= MOST_COUNT:
            then(LedgerError("the history's disk is too slow"))
            return
        self._thread.give(partial(_done, work), then)

    def close(self) -> None:
        """End when all that was given is done, unless the disk does not answer."""
        self._thread.close(ENDS_S)


def _done(work: Callable[[], T]) -> T | LedgerError:
    try:
        return work()
    except LedgerError as error:
        return error
    except Exception as error:  # the thread goes on with the next piece
        return LedgerError(f"the history: {fault_text(error)}")
