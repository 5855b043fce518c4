"""Virtual time: calls that are due, in an order that a seed chooses."""

from __future__ import annotations

import heapq
import itertools
import os
import random
from collections import deque
from collections.abc import Callable

TRACE_LENGTH = 5000  # events that are kept
TRACE_SHOWN = int(os.environ.get("SIM_TRACE", "120"))  # lines behind a failure
HEARTBEATS = ("message=Announce", "message=Accepted")
SPINS_MAX = 8  # deadlines in a row at one time


class Violation(AssertionError):
    """A rule is broken: a machine's own, or one of tests/sim/rules.py."""


class Clock:
    """Calls functions at virtual times; the same seed gives the same run.

    Attributes:
        now: seconds.
        rng: the one source of chance.
        count: calls made so far.
    """

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.rng = random.Random(seed)
        self.count = 0
        self.trace: deque[tuple[float, str, object]] = deque(maxlen=TRACE_LENGTH)
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._tickets = itertools.count()

    def at(self, due: float, call: Callable[[], None]) -> None:
        """Call something at a time, now at the earliest."""
        heapq.heappush(self._heap, (max(due, self.now), next(self._tickets), call))

    def after(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call something after a delay."""
        self.at(self.now + delay_s, call)

    def note(self, who: str, what: object) -> None:
        """Keep for the trace; formatted only when a run fails."""
        self.trace.append((self.now, who, what))

    def run(self, until: float, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Go on to a time, or until a condition holds.

        Returns:
            Whether the condition came to hold.
        """
        while self._heap and self._heap[0][0] <= until:
            if is_over():
                return True
            self.now, _, call = heapq.heappop(self._heap)
            self.count += 1
            call()
        if is_over():
            return True
        self.now = until
        return False

    def last(self, count: int = TRACE_LENGTH) -> str:
        """The end of the trace as text, without heartbeats."""
        lines = [f"{now:12.6f} {who:>10}  {what!r:.240}" for now, who, what in self.trace]
        shown = [line for line in lines if not any(word in line for word in HEARTBEATS)]
        return "\n".join(shown[-count:])
