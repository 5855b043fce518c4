"""Tasks that wait in the agent, and which of them begins when slots are free.

Tasks with the same priority and the same need are alike, so they wait in one line, and only the
first of a line is tried. Lines are tried by priority, and then the larger tasks first. A freed
slot therefore costs as many tries as there are lines, at most ``TRIES_MAX``, however many tasks
wait. The policy is packing: a task that does not fit lets smaller ones pass, but at most
``PASSED_MAX`` times. Then nothing begins before it.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from yod.pilot.model.sizes import Need, RankSlot
from yod.pilot.scheduler.slots import Slots

TRIES_MAX = 64
PASSED_MAX = 1000


class Started(Struct, frozen=True):
    """A task has slots now."""

    uid: str
    need: Need
    slots: list[RankSlot]


class _Line:
    """Tasks that are alike, first in, first out. The first one waits, and has not gone."""

    def __init__(self, priority: int, need: Need, number: int) -> None:
        self.need = need
        self.key = (priority, need)
        self.order = (-priority, -need.size, number)
        self.uids: deque[str] = deque()
        self.gone: set[str] = set()  # in the line, but not waiting any more
        self.passed = 0  # how many tasks have begun before its first one since the last began

    def __lt__(self, other: _Line) -> bool:
        return self.order < other.order


class Waiting:
    """The tasks that wait for slots."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.tries = 0  # how often room has been looked for
        self._lines: dict[tuple[int, Need], _Line] = {}
        self._order: list[_Line] = []
        self._line_of: dict[str, _Line] = {}
        self._numbers = 0

    def __len__(self) -> int:
        return len(self._line_of)

    def __contains__(self, uid: str) -> bool:
        return uid in self._line_of

    def __iter__(self) -> Iterator[str]:
        return iter(self._line_of)

    def add(self, uid: str, need: Need, priority: int = 0) -> None:
        """A task waits from now on."""
        line = self._lines.get((priority, need))
        if line is None:
            self._numbers += 1
            line = self._lines[priority, need] = _Line(priority, need, self._numbers)
            insort(self._order, line)
        line.uids.append(uid)
        self._line_of[uid] = line

    def remove(self, uid: str) -> bool:
        """A task does not wait any more; False: it did not."""
        line = self._line_of.pop(uid, None)
        if line is None:
            return False
        line.gone.add(uid)
        self._tidy(line)
        return True

    def start(self, most: int = 1 << 30) -> list[Started]:
        """Give slots to as many tasks as there is room for, at most so many.

        To be called when slots have become free, or tasks have come.
        """
        started: list[Started] = []
        last: _Line | None = None  # of those whose tasks begin
        for line in self._order[:TRIES_MAX] if self.slots.free_cores else ():
            while line.uids and len(started) < most:
                self.tries += 1
                slots = self.slots.place(line.need)
                if slots is None:
                    break
                uid = line.uids.popleft()
                del self._line_of[uid]
                started.append(Started(uid, line.need, slots))
                line.passed, last = 0, line
                self._tidy(line)
            if not self.slots.free_cores or len(started) >= most:
                break
            if line.uids and line.passed >= PASSED_MAX:
                break  # it is its turn: nothing else begins
        for line in self._order[:TRIES_MAX] if last is not None else ():
            if last is None or not line < last:
                break
            line.passed += len(started)
        return started

    def why(self, uid: str) -> str:
        """Why a task waits; empty: it does not."""
        line = self._line_of.get(uid)
        if line is None:
            return ""
        ahead = sum(len(each.uids) - len(each.gone) for each in self._order if each < line)
        need, slots = line.need, self.slots
        return (
            f"it waits for {need.ranks} x {need.cores} cores; {slots.free_cores} of {slots.cores}"
            f" are free; {ahead} tasks of other lines and {len(line.uids) - len(line.gone) - 1} of"
            " its own wait, too"
        )

    def _tidy(self, line: _Line) -> None:
        """Forget those at the head that have gone, and a line without tasks."""
        while line.uids and line.uids[0] in line.gone:
            line.gone.discard(line.uids.popleft())
        if not line.uids:
            del self._lines[line.key]
            self._order.remove(line)
