"""The order of those that wait, by the factors of their priorities. Pure.

A priority is the sum of weights times factors from 0 to 1, less what the user gives up of it
(nice). An operator's takes its place. Where a site has set no weights the order is that of arrival.
Before all that are those of queues that preempt others: a job that was ended for another and waits
again must not come before it.

The columns of all that wait lie in arrays, in the order of the line: an order is computed at each
decision, of ten thousand in a millisecond or two, and in less where nothing has moved.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from allocator.jobs.line import Waiting
from allocator.queue.rules import Rules
from allocator.queue.shares import Leaf
from allocator.queue.table import QueueTable
from native.wire.base import Factor
from native.wire.batch import BY_FACTORS

_TIER = float(1 << 40)  # points; no priority is so high
_LAST = 1 << 62  # in place of the id of what is no batch job
Floats = npt.NDArray[np.float64]


class Ranking:
    """Orders the line of one partition. See :class:`allocator.jobs.line.Ranking`.

    Args:
        slots: those of the partition.
    """

    def __init__(self, table: QueueTable, slots: Callable[[], int]) -> None:
        self._table = table
        self._slots = slots
        self._count = 0
        self._fixed = np.zeros(64)  # points that do not change
        self._by_factors = np.zeros(64)  # 1; of an operator's priority 0
        self._size = np.zeros(64)  # slots
        self._submitted = np.zeros(64)
        self._leaf = np.zeros(64, dtype=np.int64)
        self._id = np.zeros(64, dtype=np.int64)
        self._arrival = np.zeros(64)
        self._leaves: dict[Leaf, int] = {}
        self._is_plain = True  # nobody has points: the order is that of arrival

    @property
    def _columns(self) -> tuple[npt.NDArray[np.generic], ...]:
        """Those that have a value for each that waits."""
        times = (self._submitted, self._arrival)
        return (self._fixed, self._by_factors, self._size, *times, self._leaf, self._id)

    def clear(self) -> None:
        """Nobody waits."""
        self._count, self._is_plain = 0, True
        self._leaves.clear()

    def added(self, waiting: Waiting) -> None:
        """One waits, behind all others."""
        if self._count == len(self._fixed):
            for name in ("fixed", "by_factors", "size", "submitted", "leaf", "id", "arrival"):
                column = getattr(self, f"_{name}")
                setattr(self, f"_{name}", np.concatenate((column, np.zeros_like(column))))
        terms = waiting.request.terms
        leaf = terms.account, waiting.owner.uid
        place = self._count
        self._fixed[place], self._by_factors[place] = self._fixed_of(waiting)
        self._size[place] = waiting.request.slots
        self._submitted[place] = waiting.submitted
        self._leaf[place] = self._leaves.setdefault(leaf, len(self._leaves))
        self._id[place] = waiting.job_id or _LAST
        self._arrival[place] = waiting.since
        is_last = not place or self._arrival[place - 1] <= waiting.since
        has_points = self._fixed[place] or not self._by_factors[place]
        self._is_plain = self._is_plain and is_last and not has_points
        self._count += 1

    def removed(self, place: int) -> None:
        """One waits no more."""
        for column in self._columns:
            column[place : self._count - 1] = column[place + 1 : self._count].copy()
        self._count -= 1
        if not self._count:
            self.clear()

    def changed(self, place: int, waiting: Waiting) -> None:
        """The priority of one is another."""
        self._fixed[place], self._by_factors[place] = self._fixed_of(waiting)
        self._is_plain = False

    def order(self, unix_time: float) -> list[int] | None:
        """The places in the order of priority; None: it is that already."""
        weights = self._table.rules.weights
        if self._count < 2 or (self._is_plain and weights.are_none):
            return None
        priority = np.rint(self._priorities(unix_time))
        # Of equal ones what is on the disk decides, so that it is the same under a later bebopd.
        by_time = self._arrival if weights.are_none else self._submitted
        first, second = by_time[: self._count], self._id[: self._count]
        falls = priority[:-1] > priority[1:]
        rises = (first[:-1] < first[1:]) | ((first[:-1] == first[1:]) & (second[:-1] <= second[1:]))
        if bool(np.all(falls | ((priority[:-1] == priority[1:]) & rises))):
            return None
        places = np.lexsort((second, first, -priority))
        for column in self._columns:
            column[: self._count] = column[places]
        order: list[int] = places.tolist()
        return order

    def factors(self, waiting: Waiting, unix_time: float) -> tuple[Factor, ...]:
        """What the priority of one is made of; nothing: the order is that of arrival."""
        terms, rules = waiting.request.terms, self._table.rules
        weights = rules.weights
        if waiting.priority != BY_FACTORS:
            return (Factor("operator", 1.0, waiting.priority),)
        found: list[tuple[str, float, int]] = []
        if not weights.are_none:
            waited_s = max(0.0, unix_time - waiting.submitted)
            size = float(self._size_factors(np.array([float(waiting.request.slots)]))[0])
            leaf = terms.account, waiting.owner.uid
            share = self._table.shares.factors(self._leaves, unix_time)[leaf]
            queue = _queue_factor(terms.queue, rules)
            found = [
                ("age", min(1.0, waited_s / weights.most_age_s), weights.age),
                ("fair share", share, weights.fair_share),
                ("queue", queue, weights.queue),
                ("size", size, weights.size),
            ]
        told = [
            Factor(name, value, round(value * weight)) for name, value, weight in found if weight
        ]
        return (*told, *([Factor("nice", 1.0, -terms.nice)] if terms.nice else []))

    def _fixed_of(self, waiting: Waiting) -> tuple[float, float]:
        """The points that do not change, and whether others do."""
        rules, terms = self._table.rules, waiting.request.terms
        tier = _TIER * self._table.tier_of(terms)
        if waiting.priority != BY_FACTORS:
            return tier + waiting.priority, 0.0
        return tier + rules.weights.queue * _queue_factor(terms.queue, rules) - terms.nice, 1.0

    def _priorities(self, unix_time: float) -> Floats:
        weights, count = self._table.rules.weights, self._count
        points = np.zeros(count)
        if weights.age:
            waited_s = np.maximum(0.0, unix_time - self._submitted[:count])
            points += weights.age * np.minimum(1.0, waited_s / weights.most_age_s)
        if weights.size:
            points += weights.size * self._size_factors(self._size[:count])
        if weights.fair_share:
            factors = self._table.shares.factors(self._leaves, unix_time)
            by_number = np.array([factors[leaf] for leaf in self._leaves])
            points += weights.fair_share * by_number[self._leaf[:count]]
        total: Floats = self._fixed[:count] + points * self._by_factors[:count]
        return total

    def _size_factors(self, slots: Floats) -> Floats:
        large = np.minimum(1.0, slots / max(1, self._slots()))
        return 1.0 - large if self._table.rules.weights.favors_small else large


def _queue_factor(name: str, rules: Rules) -> float:
    highest = max((queue.priority for queue in rules.queues.values()), default=0)
    queue = rules.queues.get(name)
    return queue.priority / highest if queue is not None and highest else 0.0
