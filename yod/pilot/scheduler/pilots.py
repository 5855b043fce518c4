"""Which pilot gets a task: the one with the least work for its size that can run it.

Tasks are given late. A pilot has a window of tasks, beyond which they wait at the client, so that
a pilot that comes later, or is faster, takes its share; and a pilot that is drained or lost has few
to give back.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

WINDOW_LEAST = 1024
WINDOW_PER_CORE = 4


class Wanted(Struct, frozen=True, gc=False):
    """A task that waits for a pilot.

    Attributes:
        cores: of all its ranks.
        pilot: the only one that may have it; empty: any.
    """

    uid: str
    cores: int = 1
    pilot: str = ""


class _Pilot:
    def __init__(self, cores: int) -> None:
        self.cores = max(1, cores)
        self.window = max(WINDOW_LEAST, WINDOW_PER_CORE * cores)
        self.held = 0  # tasks that it has
        self.is_open = True  # it may get more
        self.own: deque[Wanted] = deque()  # that may have no other one

    @property
    def load(self) -> float:
        return self.held / self.cores


class Dispatcher:
    """The tasks that wait for a pilot, and how many each pilot has."""

    def __init__(self) -> None:
        self._pilots: dict[str, _Pilot] = {}
        self._own: dict[str, deque[Wanted]] = {}  # for pilots that are not here yet
        self._queue: deque[Wanted] = deque()
        self._gone: set[str] = set()
        self._waiting: set[str] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiting

    def add(self, pilot: str, cores: int, held: int = 0) -> None:
        """A pilot is active, and has so many tasks."""
        self._pilots[pilot] = _Pilot(cores)
        self._pilots[pilot].held = held
        self._pilots[pilot].own = self._own.pop(pilot, deque())

    def close(self, pilot: str) -> None:
        """A pilot gets no more tasks."""
        if pilot in self._pilots:
            self._pilots[pilot].is_open = False

    def remove(self, pilot: str) -> list[str]:
        """A pilot has ended. Returns tasks that waited for it and may have no other one."""
        gone = self._pilots.pop(pilot, None)
        own = (gone.own if gone else deque()) + self._own.pop(pilot, deque())
        uids = [each.uid for each in own if each.uid in self._waiting]
        self._waiting.difference_update(uids)
        return uids

    def want(self, wanted: Wanted, *, is_first: bool = False) -> None:
        """A task waits for a pilot.

        Args:
            is_first: before the others: it has waited before.
        """
        self._waiting.add(wanted.uid)
        self._gone.discard(wanted.uid)
        if not wanted.pilot:
            queue = self._queue
        elif wanted.pilot in self._pilots:
            queue = self._pilots[wanted.pilot].own
        else:
            queue = self._own.setdefault(wanted.pilot, deque())
        if is_first:
            queue.appendleft(wanted)
        else:
            queue.append(wanted)

    def drop(self, uid: str) -> bool:
        """A task waits no more; False: it did not."""
        if uid not in self._waiting:
            return False
        self._waiting.discard(uid)
        self._gone.add(uid)
        return True

    def ended(self, pilot: str, count: int = 1) -> None:
        """A pilot has fewer tasks than before."""
        if pilot in self._pilots:
            self._pilots[pilot].held -= count

    def assign(self) -> dict[str, list[str]]:
        """Give tasks to pilots: pilot -> tasks."""
        found: dict[str, list[str]] = {}
        for uid, pilot in self._pilots.items():
            while pilot.is_open and pilot.own and pilot.held < pilot.window:
                self._give(pilot.own.popleft(), uid, found)
        open_ones = {uid: each for uid, each in self._pilots.items() if each.is_open}
        while self._queue and open_ones:
            wanted = self._queue[0]
            if wanted.uid in self._gone:
                self._gone.discard(self._queue.popleft().uid)
                continue
            best = ""
            able = [u for u, each in open_ones.items() if each.cores >= wanted.cores]
            for uid in able or open_ones:  # none is able: the pilot says so
                each = open_ones[uid]
                if each.held < each.window and (not best or each.load < open_ones[best].load):
                    best = uid
            if not best:
                break
            self._give(self._queue.popleft(), best, found)
        return found

    def _give(self, wanted: Wanted, pilot: str, found: dict[str, list[str]]) -> None:
        if wanted.uid in self._gone:
            self._gone.discard(wanted.uid)
            return
        self._waiting.discard(wanted.uid)
        self._pilots[pilot].held += 1
        found.setdefault(pilot, []).append(wanted.uid)
