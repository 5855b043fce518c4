"""The free slots of all nodes from now on: as running jobs end, and others are expected to begin.

Memory and GPUs likewise (:mod:`allocator.queue.supply`).

Times are seconds from now. A row holds from its time to that of the next one; the last for ever.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from math import inf

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from allocator.jobs.assign import Picks, attempt, node_count, slots_on
from allocator.jobs.job import Job
from allocator.nodes.access import Claim
from allocator.nodes.bookings import Booking, against
from allocator.nodes.node import Node
from allocator.nodes.placement import ArrayPlacement
from allocator.nodes.table import NodeTable
from allocator.queue.supply import HeldSlots, Stock, Supply, room_for, supplied
from native.wire.alloc import NodeRequest, NodeSpec, Share

ROWS_COUNT = 128  # of ends of running jobs; where there are more, some are taken for later

Slots = npt.NDArray[np.int32]  # by node number


class Start(Struct, frozen=True):
    """When a request can begin at the earliest, and where.

    Attributes:
        at: seconds from now.
        placement: slots that are free for all of its time.
    """

    at: float
    picks: list[Picks]
    placement: ArrayPlacement


class Profile:
    """The free slots of a partition over time.

    Attributes:
        is_anyones: no node is kept for some users.

    Args:
        placement: how slots are chosen, and what is free now.
        stocks: what no job has of memory and GPUs now.
        ends: running jobs, and the seconds until each is expected to end.
        bookings: nodes that are kept for some users for a time.
        at: unix time.
        held: the slots of jobs, remembered from one profile to the next; None: they are not.
    """

    def __init__(
        self,
        nodes: NodeTable,
        placement: ArrayPlacement,
        stocks: Mapping[str, Stock],
        ends: Iterable[tuple[float, Job]],
        bookings: Sequence[Booking] = (),
        at: float = 0.0,
        held: HeldSlots | None = None,
    ) -> None:
        self._nodes = nodes
        self._placement = placement
        self._times = [0.0]
        self._rows = [placement.free_slots().astype(np.int32)]
        self._since_now: list[Slots] = []  # what is free in all rows up to each
        self._sums = [_sum(self._rows[0])]  # most rows are too small for a request
        self._ended: list[tuple[float, int]] = []  # times of ends, and jobs
        self.is_anyones = placement.is_anyones and not bookings
        by_end = _by_end(ends)
        held = HeldSlots() if held is None else held
        for end, jobs in by_end.items():
            self._add_ends(end, jobs, held)
        held.forget_ended(by_end)
        self._supply = Supply(stocks, len(self._rows[0]), by_end)
        self._bookings = bookings
        self._at = at
        for booking in bookings:  # others may begin then
            if booking.end > at:
                self._split(booking.end - at)

    def _add_ends(self, at: float, jobs: Sequence[Job], held: HeldSlots) -> None:
        row = self._rows[-1].copy()
        for job in jobs:
            self._ended.append((at, job.job_id))
            held.give_back(job, row)
        for number in self._nodes.exclusive:
            node = self._nodes.get(number)
            if node is not None and row[number]:
                row[number] = node.slots
        row[list(self._nodes.closed)] = 0
        self._times.append(at)
        self._rows.append(row)
        self._sums.append(_sum(row))

    @property
    def next(self) -> float:
        """When something is expected to change first."""
        return self._times[1] if len(self._times) > 1 else inf

    def earliest(
        self,
        request: NodeRequest,
        claim: Claim,
        time_s: float,
        before: float = inf,
        since: float = 0.0,
    ) -> Start | None:
        """When a request finds its slots free for so long; None: not as far as is known.

        Args:
            before: seconds from now; no later time is tried.
            since: seconds from now; no earlier time is tried.
        """
        if claim.one_of:
            asked = [(request, each, time_s, before, since) for each in claim.choices()]
            starts = [start for each in asked if (start := self.earliest(*each)) is not None]
            return min(starts, key=lambda start: (start.at, node_count(start.picks)), default=None)
        if since >= before:
            return None
        wanted = request.slots
        needs = [spec.needs for spec in request.specs if spec.needs is not None]
        is_bound = any(each.binding is not None for each in needs)
        only = request.specs[0] if len(request.specs) == 1 else None
        first = self._split(since)
        for index, at in enumerate(self._times[first:], first):
            if at >= before:
                return None
            last = max(index + 1, bisect_left(self._times, at + time_s))
            if min(self._sums[index:last]) < wanted:
                continue
            free = self._lowest(index, last) if index else self._from_now(last)
            if request.is_exclusive:
                free = np.where(free == self._totals, free, 0)
            if self._bookings:
                free = self._without_booked(free, claim.uid, at, at + time_s)
            if _sum(free) < wanted:
                continue
            left: Callable[[Node], Share] = Node.left
            is_counted = False  # the room by memory and GPUs is in what is free
            if needs:
                least = self._supply.least(needs, at, at + time_s)
                left = supplied(least, self._left_at(at) if is_bound else None)
                if only is not None and (room := room_for(only, least)) is not None:
                    free, is_counted = np.minimum(free, room), not is_bound
                    if _sum(free) < wanted:
                        continue
            placement = self._placement.with_free(free.astype(np.int64)).admitting(claim)
            if is_counted and only is not None and _is_plain(only) and _is_any(placement):
                filled = placement.filled(only.size)  # as below, and sooner
                if filled is not None:
                    return Start(at, [filled], placement)
                continue
            picks = attempt(request.specs, self._nodes, placement, left)
            if isinstance(picks, list):
                return Start(at, picks, placement)
        return None

    def take(
        self, start: Start, request: NodeRequest, time_s: float, given_to: int | None = None
    ) -> None:
        """A request has, or is to have, these slots for its time.

        Args:
            given_to: the job that has them, as the nodes know; 0: one that has no limit. None: they
                are kept. Cores that its ranks are bound to are not counted then, so nobody gets a
                slot beside it.
        """
        if given_to:
            self._ended.append((start.at + time_s, given_to))
        slots = slots_on(request.specs, start.picks)
        numbers = np.fromiter(slots, dtype=np.int64, count=len(slots))
        taken = np.fromiter(slots.values(), dtype=np.int32, count=len(slots))
        is_alone = request.is_exclusive or (
            given_to is None and any(spec.needs and spec.needs.binding for spec in request.specs)
        )
        exclusive = self._nodes.exclusive
        unshared = [number for number in slots if number in exclusive] if exclusive else []
        count = _sum(taken)
        first, last = bisect_left(self._times, start.at), self._split(start.at + time_s)
        del self._since_now[first:]
        self._supply.take(start.at, start.at + time_s, request.specs, start.picks)
        for index in range(first, last):
            row = self._rows[index]
            row[numbers] = 0 if is_alone else row[numbers] - taken
            if is_alone or unshared:
                row[unshared] = 0
                self._sums[index] = _sum(row)
            else:
                self._sums[index] -= count

    def _split(self, at: float) -> int:
        """Let a row begin at a time. Gives its index; the count of rows if that never comes."""
        if at == inf:
            return len(self._rows)
        index = bisect_left(self._times, at)
        if index == len(self._times) or self._times[index] != at:
            del self._since_now[index:]
            self._times.insert(index, at)
            self._rows.insert(index, self._rows[index - 1].copy())
            self._sums.insert(index, self._sums[index - 1])
        return index

    def _lowest(self, first: int, last: int) -> Slots:
        """What is free of each node in all of these rows."""
        lowest = self._rows[first]
        if last > first + 1:
            lowest = lowest.copy()
            for row in self._rows[first + 1 : last]:
                np.minimum(lowest, row, out=lowest)
        return lowest

    def _from_now(self, last: int) -> Slots:
        """The same from the first row on: most requests are tried there only."""
        if not self._since_now:
            self._since_now.append(self._rows[0])
        for row in self._rows[len(self._since_now) : last]:
            self._since_now.append(np.minimum(self._since_now[-1], row))
        return self._since_now[last - 1]

    def _without_booked(self, free: Slots, uid: int, begins: float, ends: float) -> Slots:
        """The same but for nodes that are kept for others at some time of a user's job."""
        kept = against(self._bookings, uid, self._at + begins, self._at + ends)
        if not kept:
            return free
        if any(not booking.nodes for booking in kept):
            return np.zeros_like(free)
        free = free.copy()
        for booking in kept:
            free[[number for number in booking.nodes if number < len(free)]] = 0
        return free

    @cached_property
    def _totals(self) -> Slots:
        """The slots of each node, free or not."""
        totals = np.zeros_like(self._rows[0])
        for node in self._nodes:
            totals[node.number] = node.slots
        return totals

    def _left_at(self, at: float) -> Callable[[Node], Share]:
        """What no job has of a node at a time; of memory and GPUs only what runs now is counted."""
        if not at:
            return Node.left
        gone = {job_id for end, job_id in self._ended if end <= at}

        def left(node: Node) -> Share:
            return node.share.less([each for job, each in node.given.items() if job not in gone])

        return left


def _sum(row: Slots) -> int:
    return int(row.sum(dtype=np.int64))


def _is_any(placement: ArrayPlacement) -> bool:
    """Whether all nodes with free slots do, whichever are taken."""
    return not (placement.least or placement.switches)


def _is_plain(spec: NodeSpec) -> bool:
    """Whether ranks fill one node after another, each with a slot."""
    shaped = spec.node_count or spec.per_node or spec.cores > 1 or spec.plane
    return not (shaped or spec.nodes or spec.one_per_node)


def _by_end(ends: Iterable[tuple[float, Job]]) -> dict[float, list[Job]]:
    """Jobs by the times of their ends, ascending; of very many times some are taken for later.

    The first time is told apart from all others: it is that of jobs that end already.
    """
    ordered = sorted(ends, key=lambda end: end[0])
    first_at = ordered[0][0] if ordered else 0.0
    found: dict[float, list[Job]] = {}
    if first := [job for at, job in ordered if at == first_at]:
        found[first_at] = first
    others = ordered[len(first) :]
    size = max(1, -(-len(others) // ROWS_COUNT))
    for start in range(0, len(others), size):
        group = others[start : start + size]
        found.setdefault(group[-1][0], []).extend(job for _, job in group)
    return found
