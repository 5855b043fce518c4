"""Work that waits for the disk, beside the loop that decides: in a thread of its own.

The thread does one piece after another, in the order in which they were given. Nothing is
shared with the loop but the two queues: a piece goes to the thread, its result comes back.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

from allocator.records import LedgerError
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
        self._given: SimpleQueue[tuple[Callable[[], object], Callable[..., None]] | None] = (
            SimpleQueue()
        )
        self._done: deque[tuple[object, Callable[..., None]]] = deque()
        self._count = 0
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._watch = reactor.watch(self._event, self._take)
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    def give(self, work: Callable[[], T], then: Callable[[T | LedgerError], None]) -> None:
        """Have a piece of work done; ``then`` is called in the loop with its result."""
        if self._count >= MOST_COUNT:
            then(LedgerError("the history's disk is too slow"))
            return
        self._count += 1
        self._given.put((work, then))

    def close(self) -> None:
        """End when all that was given is done, unless the disk does not answer."""
        self._given.put(None)
        self._thread.join(ENDS_S)
        self._watch.close()
        if not self._thread.is_alive():  # else it may still write there
            self._take_all()
            os.close(self._event)

    def _run(self) -> None:
        while (piece := self._given.get()) is not None:
            work, then = piece
            self._done.append((_done(work), then))
            os.eventfd_write(self._event, 1)

    def _take(self) -> None:
        os.eventfd_read(self._event)
        self._take_all()

    def _take_all(self) -> None:
        while self._done:
            result, then = self._done.popleft()
            self._count -= 1
            then(result)


def _done(work: Callable[[], T]) -> T | LedgerError:
    try:
        return work()
    except LedgerError as error:
        return error
    except Exception as error:  # the thread goes on with the next piece
        return LedgerError(f"the history: {fault_text(error)}")
