"""Work that waits for others, beside the loop that decides: in a thread of its own.

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

from native.loop.reactor import Reactor

T = TypeVar("T")


class Aside:
    """A thread for work that waits.

    Args:
        name: of the thread.
    """

    def __init__(self, reactor: Reactor, name: str) -> None:
        self._given: SimpleQueue[tuple[Callable[[], object], Callable[..., None]] | None] = (
            SimpleQueue()
        )
        self._done: deque[tuple[object, Callable[..., None]]] = deque()
        self._count = 0
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._watch = reactor.watch(self._event, self._take)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        """Pieces of which no result has been told."""
        return self._count

    def give(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Have a piece of work done, which raises nothing; ``then`` is called in the loop."""
        self._count += 1
        self._given.put((work, then))

    def close(self, limit_s: float) -> None:
        """End when all that was given is done, unless that takes longer."""
        self._given.put(None)
        self._thread.join(limit_s)
        self._watch.close()
        if not self._thread.is_alive():  # else it may still write there
            self._take_all()
            os.close(self._event)

    def _run(self) -> None:
        while (piece := self._given.get()) is not None:
            work, then = piece
            self._done.append((work(), then))
            os.eventfd_write(self._event, 1)

    def _take(self) -> None:
        os.eventfd_read(self._event)
        self._take_all()

    def _take_all(self) -> None:
        while self._done:
            result, then = self._done.popleft()
            self._count -= 1
            then(result)
