"""What backfill has found when it last looked at the line. Pure."""

from __future__ import annotations

from collections import Counter
from itertools import count
from math import inf

from allocator.jobs.line import Line, Waiting
from allocator.nodes.table import NodeTable
from allocator.queue.profile import Profile
from native.limits import Limits

KEPT_BACK = 10  # for each that is tried so many may be kept back by the rules of their queues


class Plan:
    """What was found when the line was last looked at: it holds until slots change.

    Attributes:
        profile: the free slots but for those that are kept.
        at: unix time.
        number: of this plan; each request that it has looked at notes it.
        count: how many it has looked at that do not begin now.
        kept: how many of these have an expected start.
        first: those that nobody behind them may delay, in their order.
        claimed: licences that these need.
        too_much: the shortest times, in seconds, for which what is asked for does not fit now, by
            its number: others that ask for the same for as long are not tried.
        blocked: those that the rules of their queues keep back, by number, likewise.
        allowed: those that the rules do not keep back, until somebody is given slots.
        looked: how many it has looked at, those that were given slots included.
        due: unix time at which somebody takes more leaf switches than before.
        is_trial: nobody is given slots by it.
    """

    _numbers = count(1)

    def __init__(self, profile: Profile, at: float, *, is_trial: bool = False) -> None:
        self.profile = profile
        self.at = at
        self.is_trial = is_trial
        self.number = next(self._numbers)
        self.count = 0
        self.kept = 0
        self.first: list[Waiting] = []
        self.claimed: Counter[str] = Counter()
        self.too_much: dict[int, float] = {}
        self.blocked: set[int] = set()
        self.allowed: set[int] = set()
        self.looked = 0
        self.due = inf
        self._state = (-1, -1, -1)

    def is_full(self, limits: Limits) -> bool:
        """Nobody else is looked at."""
        most = limits.backfill_tested_count
        is_kept = self.kept < limits.backfill_count
        return (not is_kept and self.count >= most) or len(self.blocked) >= KEPT_BACK * most

    def is_of(self, nodes: NodeTable, line: Line, freed: int, unix_time: float) -> bool:
        """Whether it still holds.

        Args:
            freed: that of the rules of the queues.
        """
        is_due = unix_time - self.at >= self.profile.next or unix_time >= self.due
        is_same = self._state == (nodes.changes, line.removed, freed) and not is_due
        return is_same and self._is_in_order(line)

    def _is_in_order(self, line: Line) -> bool:
        """Whether all up to the last that nobody may delay follow one another as they did."""
        left, last = len(self.first), 0
        firsts = set(map(id, self.first))
        for waiting in line:
            if not left:
                return True
            if waiting.plan != self.number or waiting.looked_at < last:
                return False
            last = waiting.looked_at
            left -= id(waiting) in firsts
        return not left

    def look_at(self, waiting: Waiting) -> None:
        """One is looked at, behind all others."""
        self.looked += 1
        waiting.plan, waiting.looked_at = self.number, self.looked

    def expire(self) -> None:
        """It does not hold any more."""
        self._state = (-1, -1, -1)

    def claim(self, waiting: Waiting) -> None:
        """Nobody behind this one may delay it."""
        self.first.append(waiting)
        if waiting.request.terms.licences:
            self.allowed.clear()
        for licence, wanted in waiting.request.terms.licences:
            self.claimed[licence] += wanted

    def keep(self, nodes: NodeTable, line: Line, freed: int) -> None:
        """It holds for what is there now."""
        self._state = (nodes.changes, line.removed, freed)
