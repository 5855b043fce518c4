"""Deadlines of many holders; finds the earliest one quickly.

A heap. When a deadline changes, its old entry stays in the heap, out of date, and is dropped
when it becomes the first. When such entries outnumber the others, the heap is made anew. So it
is at most twice as large as it needs to be, and the cost of a change hardly grows with the
number of holders.
"""

from __future__ import annotations

from _heapq import heapify, heappop, heappush  # heapq's; most of that module is not used here
from collections.abc import Callable, Hashable, KeysView
from itertools import count
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


def earliest(*times: float | None) -> float | None:
    """The earliest of some times; None stands for never."""
    found = None
    for time in times:
        if time is not None and (found is None or time < found):
            found = time
    return found


class Deadlines(Generic[K]):
    """At most one deadline for each holder, in seconds on one clock."""

    def __init__(self) -> None:
        self._entries: dict[K, tuple[float, int, K]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._numbers = count()  # of two equal deadlines the one that was set first comes first

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, holder: K) -> bool:
        return holder in self._entries

    def keys(self) -> KeysView[K]:
        """The holders that have a deadline."""
        return self._entries.keys()

    def get(self, holder: K) -> float | None:
        """A holder's deadline; None: it has none."""
        entry = self._entries.get(holder)
        return None if entry is None else entry[0]

    def set(self, holder: K, at: float | None) -> None:
        """Give a holder this deadline in place of the one it has; None: it has none."""
        entry = self._entries.get(holder)
        if at is None:
            if entry is None:
                return
            del self._entries[holder]
        elif entry is None or entry[0] != at:
            entry = self._entries[holder] = (at, next(self._numbers), holder)
            heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._entries):
            self._heap = list(self._entries.values())
            heapify(self._heap)

    def earliest(self) -> float | None:
        """The earliest deadline; None: there is none."""
        heap, entries = self._heap, self._entries
        while heap and entries.get(heap[0][2]) is not heap[0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def due(self, now: float) -> list[K]:
        """The holders whose deadlines have come, the earliest first. They keep them."""
        if (at := self.earliest()) is None or at > now:
            return []
        found = []
        while (at := self.earliest()) is not None and at <= now:
            found.append(heappop(self._heap))
        for entry in found:
            heappush(self._heap, entry)
        return [holder for _, _, holder in found]


class AskedDeadlines(Deadlines[K]):
    """Deadlines that are computed late: holders that may have changed are asked when one is read.

    A holder that changes many times before that is asked once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._to_ask: dict[K, Callable[[], float | None]] = {}

    def ask(self, holder: K, deadline: Callable[[], float | None]) -> None:
        """The holder's deadline may have changed: ask for it before the next answer is given."""
        self._to_ask[holder] = deadline

    def __len__(self) -> int:
        self._settle()
        return super().__len__()

    def __contains__(self, holder: K) -> bool:
        self._settle()
        return super().__contains__(holder)

    def keys(self) -> KeysView[K]:
        self._settle()
        return super().keys()

    def get(self, holder: K) -> float | None:
        self._settle()
        return super().get(holder)

    def set(self, holder: K, at: float | None) -> None:
        self._settle()
        super().set(holder, at)

    def earliest(self) -> float | None:
        self._settle()
        return super().earliest()

    def _settle(self) -> None:
        if not self._to_ask:
            return
        to_ask, self._to_ask = self._to_ask, {}
        for holder, deadline in to_ask.items():
            super().set(holder, deadline())
