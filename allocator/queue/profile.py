"""The free slots of all nodes from now on: as running jobs end, and others are expected to begin.

Memory and GPUs likewise (:mod:`allocator.queue.supply`).

Times are seconds from now. A row holds from its time to that of the next one; the last for ever.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import inf

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from allocator.jobs.assign import Picks, attempt, bound_cores, node_count, slots_on
from allocator.jobs.job import Job
from allocator.nodes.access import Claim
from allocator.nodes.bookings import Booking, against
from allocator.nodes.node import Node
from allocator.nodes.placement import ArrayPlacement, Filled, fill
from allocator.nodes.policies import Ints
from allocator.nodes.table import NodeTable
from allocator.queue.borrowing import left_of
from allocator.queue.planned import PlannedCores
from allocator.queue.supply import HeldSlots, Stock, Supply, is_counted, room_for, supplied
from native.wire.alloc import NodeRequest, NodeSpec, Share
from native.wire.placed import NodeLoan

UNLIMITED_S = 365 * 86400.0  # after which what has no limit is expected to end; it needs more
OVERDUE_S = 1.0  # that one is expected to need which ends, or should have ended
ROWS_COUNT = 128  # of ends of running jobs; where there are more, some are taken for later

SMALL_MAX = 16_383  # slots of a node for which short numbers do, with what is lent

Slots = npt.NDArray[np.int16] | npt.NDArray[np.int32]  # by node number
Filler = Callable[[Slots, float, float], Filled | None]  # from what is free in a time


class Start(Struct, frozen=True, dict=True):
    """When a request can begin at the earliest, and where.

    Attributes:
        at: seconds from now.
        placement: slots that are free for all of its time; None: it is later, and nobody asks.
        chosen: what its members have, in rank order; None: ``filled`` says it.
        filled: what its only member has.
    """

    at: float
    placement: ArrayPlacement | None
    chosen: list[Picks] | None = None
    filled: Filled | None = None

    @cached_property
    def picks(self) -> list[Picks]:
        """What its members have, in rank order."""
        if self.filled is not None:
            return [self.filled.spans()]
        assert self.chosen is not None
        return self.chosen


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
        self._kind = np.dtype(np.int16 if nodes.most_slots <= SMALL_MAX else np.int32)
        self._rows: list[Slots] = [placement.free_slots().astype(self._kind)]
        self._since_now: list[Slots] = []  # what is free in all rows up to each
        self._sums = [_sum(self._rows[0])]  # most rows are too small for a request
        self._ended: list[tuple[float, int]] = []  # times of ends, and jobs
        self.is_anyones = placement.is_anyones and not bookings
        self._loans = [loan for each in nodes.lending for loan in self._loans_on(each)]
        by_end = _by_end(ends)
        held = HeldSlots() if held is None else held
        for end, jobs in by_end.items():
            self._add_ends(end, jobs, held)
        held.forget_ended(by_end)
        self._supply = Supply(stocks, len(self._rows[0]), by_end)
        self._cores = PlannedCores()
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
        if self._loans:
            self._end_loans({job.job_id for job in jobs}, row)
        for number in self._nodes.exclusive:
            node = self._nodes.get(number)
            if node is not None and row[number]:
                row[number] = node.slots
        if self._nodes.closed:
            row[list(self._nodes.closed)] = 0
        self._times.append(at)
        self._rows.append(row)
        self._sums.append(_sum(row))

    def _loans_on(self, number: int) -> Iterator[tuple[int, NodeLoan]]:
        node = self._nodes.get(number)
        for borrower, loans in node.loans.items() if node is not None else ():
            for loan in loans:
                yield borrower, loan

    def _end_loans(self, gone: Container[int], row: Slots) -> None:
        """Jobs have ended: of slots that two held one holds them still."""
        left: list[tuple[int, NodeLoan]] = []
        for borrower, loan in self._loans:
            if borrower in gone or loan.lender in gone:
                row[loan.node] -= loan.slots
            else:
                left.append((borrower, loan))
        self._loans = left

    def lend(self, lenders: Iterable[Job]) -> None:
        """These jobs are to stand still: what they hold, and have not lent, is free until they end.

        Memory, GPUs and cores that ranks are bound to are not lent.
        """
        self._since_now.clear()
        ends = {job_id: at for at, job_id in self._ended}
        for job in lenders:
            left = left_of(job, self._nodes)
            for index in range(bisect_left(self._times, ends.get(job.job_id, inf))):
                for number, slots in left.items():
                    self._rows[index][number] += slots
                self._sums[index] += sum(left.values())

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
        only, is_single = request.specs[0], len(request.specs) == 1
        filler = self._filler(request, claim)
        first = self._split(since)
        for index, at in enumerate(self._times[first:], first):
            if at >= before:
                return None
            last = max(index + 1, bisect_left(self._times, at + time_s))
            if min(self._sums[index:last]) < wanted:
                continue
            free = self._lowest(index, last) if index else self._from_now(last)
            if request.is_exclusive:
                free = free * (free == self._totals)
            if self._bookings:
                free = self._without_booked(free, claim.uid, at, at + time_s)
            if filler is not None:
                if (filled := filler(free, at, at + time_s)) is None:
                    continue
                if at >= OVERDUE_S:
                    return Start(at, None, filled=filled)
                return Start(at, self._room(only, claim, free, at, at + time_s), filled=filled)
            if _sum(free) < wanted:
                continue
            left: Callable[[Node], Share] = Node.left
            if needs:
                least = self._supply.least(needs, at, at + time_s)
                left = supplied(least, self._with_cores(at, at + time_s) if is_bound else None)
                if is_single and (room := room_for(only, least)) is not None:
                    free = np.minimum(free, room).astype(self._kind)
                    if _sum(free) < wanted:
                        continue
            placement = self._placement.with_free(free.astype(np.int64)).admitting(claim)
            placement.supply = left if is_bound else None
            picks = attempt(request.specs, self._nodes, placement, left)
            if isinstance(picks, list):
                return Start(at, placement, picks)
        return None

    def _filler(self, request: NodeRequest, claim: Claim) -> Filler | None:
        """How to place a request that fills one node after another; None: it is none.

        It looks at those nodes alone that have something free, which are few. What it finds is what
        :func:`allocator.jobs.assign.attempt` would, later.
        """
        placement, only = self._placement, request.specs[0]
        if len(request.specs) > 1 or not _is_plain(only) or claim.least:
            return None
        if claim.switches and placement.has_leaves:
            return None
        needs = only.needs
        if needs is None:
            if not placement.fills_lowest:
                return None
        elif needs.binding is not None or not is_counted(needs):
            return None

        def filler(free: Slots, first: float, last: float) -> Filled | None:
            nodes = placement.admitted(claim, (free > 0).nonzero()[0])
            slots = free[nodes].astype(np.int64)
            if needs is not None:
                room = room_for(only, self._supply.least((needs,), first, last, nodes))
                assert room is not None
                slots = np.minimum(slots, room)
                has_room = slots > 0
                nodes, slots = nodes[has_room], slots[has_room]
            return fill(nodes, slots, only.size)

        return filler

    def _room(
        self, spec: NodeSpec, claim: Claim, free: Slots, first: float, last: float
    ) -> ArrayPlacement:
        """The slots that a request may have which such a filler has placed."""
        if spec.needs is not None:
            room = room_for(spec, self._supply.least((spec.needs,), first, last))
            assert room is not None
            return self._placement.with_free(np.minimum(free, room)).admitting(claim)
        return self._placement.with_free(free.astype(np.int64)).admitting(claim)

    def take(
        self, start: Start, request: NodeRequest, time_s: float, given_to: int | None = None
    ) -> None:
        """A request has, or is to have, these slots for its time.

        Args:
            given_to: the job that has them, as the nodes know; 0: one that has no limit. None: they
                are kept.
        """
        if given_to:
            self._ended.append((start.at + time_s, given_to))
        if start.filled is not None:
            numbers, taken = start.filled
        else:
            slots = slots_on(request.specs, start.picks)
            numbers = np.fromiter(slots, dtype=np.int64, count=len(slots))
            taken = np.fromiter(slots.values(), dtype=np.int64, count=len(slots))
        is_alone, until = request.is_exclusive, start.at + time_s
        if given_to is None and any(spec.needs and spec.needs.binding for spec in request.specs):
            left = self._with_cores(start.at, until)
            cores = bound_cores(request.specs, start.picks, self._nodes, left)
            self._cores.keep(start.at, until, cores)
        exclusive = self._nodes.exclusive
        unshared = [each for each in numbers.tolist() if each in exclusive] if exclusive else []
        count = _sum(taken)
        first, last = bisect_left(self._times, start.at), self._split(start.at + time_s)
        del self._since_now[first:]
        if start.filled is None:
            self._supply.take(start.at, until, request.specs, start.picks)
        elif (needs := request.specs[0].needs) is not None:
            self._supply.fill(start.at, until, needs, numbers, taken)
        for index in range(first, last):
            row = self._rows[index]
            if is_alone:
                row[numbers] = 0
            else:
                row[numbers] -= taken
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

    def _with_cores(self, first: float, last: float) -> Callable[[Node], Share]:
        """What is left of a node for a time, with the cores that ranks can be bound to."""
        return self._cores.behind(self._left_at(first), first, last)

    def _left_at(self, at: float) -> Callable[[Node], Share]:
        """What no job has of a node at a time; of memory and GPUs only what runs now is counted."""
        if not at:
            return Node.left
        gone = {job_id for end, job_id in self._ended if end <= at}

        def left(node: Node) -> Share:
            return node.share.less([each for job, each in node.given.items() if job not in gone])

        return left


def _sum(row: Slots | Ints) -> int:
    return int(row.sum(dtype=np.int64))


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
