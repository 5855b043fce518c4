"""The memory and the GPUs of all nodes that no job has, from now on. Pure.

Nothing is counted until a request asks for it: on many partitions none does. Times are those of
the profile that this belongs to (:mod:`allocator.queue.profile`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from operator import itemgetter

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from allocator.jobs.assign import Picks, ranks_on
from allocator.jobs.job import Job
from allocator.jobs.table import JobTable
from allocator.nodes.node import Node
from allocator.nodes.table import NodeTable
from native.wire.alloc import Needs, NodeSpec, Share
from native.wire.base import SLOTS_MAX

Amounts = npt.NDArray[np.int64]  # by node number; of a node that has come back with less also < 0
Ends = Mapping[float, Sequence[Job]]
ALL = slice(None)
NONE: Amounts = np.zeros(0, dtype=np.int64)


class HeldSlots:
    """The slots that jobs hold, as arrays; remembered from one profile to the next."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[object, Amounts, Amounts]] = {}  # by job: where it was placed

    def give_back(self, job: Job, row: npt.NDArray[np.int16] | npt.NDArray[np.int32]) -> None:
        """A job has ended: its slots are free."""
        if job.placed is None or len(job.placed[0]) != len(job.holdings):
            for first, count, slots in job.spans():  # what is left of it is not remembered
                row[first : first + count] += slots
            return
        placed, numbers, slots_of = self._of.get(job.job_id, (None, NONE, NONE))
        if placed is not job.placed:
            by_node: dict[int, int] = {}
            for first, count, slots in job.spans():
                by_node |= dict.fromkeys(range(first, first + count), slots)
            numbers, slots_of = _columns(by_node)
            self._of[job.job_id] = job.placed, numbers, slots_of
        row[numbers] += slots_of

    def forget_ended(self, ends: Ends) -> None:
        """Remember only these jobs, when most of the others are over."""
        there = sum(map(len, ends.values()))
        if len(self._of) > 2 * there + 64:
            kept = {job.job_id for jobs in ends.values() for job in jobs}
            self._of = {job_id: each for job_id, each in self._of.items() if job_id in kept}


class _Held(Struct):
    """What a job has of one of them.

    Attributes:
        key: what it was when this was found.
    """

    key: tuple[int, int]
    job: Job
    numbers: Amounts
    amounts: Amounts


class Stock:
    """What no running job has of one of them; remembered from one profile to the next.

    Args:
        name: of the field of :class:`native.wire.alloc.Share`.
    """

    def __init__(self, name: str, nodes: NodeTable, jobs: JobTable) -> None:
        self._name = name
        self._nodes = nodes
        self._jobs = jobs
        self._counted = (-1, -1)  # length and description of the nodes that were
        self._totals = np.zeros(0, dtype=np.int64)
        self._now = self._totals
        self._held: dict[int, _Held] = {}

    def now(self, count: int) -> Amounts:
        """What is left of each node; not to be changed.

        Args:
            count: the length of a row.
        """
        if (key := (count, self._nodes.described)) != self._counted:
            self._counted = key
            totals = np.zeros(count, dtype=np.int64)
            nodes = list(self._nodes)
            there = np.fromiter([node.number for node in nodes], dtype=np.int64, count=len(nodes))
            totals[there] = [self._total(node) for node in nodes]
            if not np.array_equal(totals, self._totals):
                self._totals, self._held = totals, {}
                self._now = totals.copy()
        running = {job.job_id: job for job in self._jobs}
        for job_id in [each for each in self._held if each not in running]:
            self._give_back(job_id)
        for job_id, job in running.items():
            held, key = self._held.get(job_id), (len(job.holdings), next(reversed(job.holdings)))
            if held is not None and held.job is job and held.key == key:
                continue
            if held is not None:
                self._give_back(job_id)
            found = self._held[job_id] = _Held(key, job, *self._of(job))
            self._now[found.numbers] -= found.amounts
        return self._now

    def give_back(self, jobs: Iterable[Job], row: Amounts) -> None:
        """Some of the jobs have ended."""
        for job in jobs:
            if (held := self._held.get(job.job_id)) is not None and len(held.numbers):
                row[held.numbers] += held.amounts

    def _give_back(self, job_id: int) -> None:
        held = self._held.pop(job_id)
        self._now[held.numbers] += held.amounts

    def _total(self, node: Node) -> int:
        return node.memory if self._name == "memory" else len(node.gpus)

    def _of(self, job: Job) -> tuple[Amounts, Amounts]:
        """What a job has, by nodes."""
        has: dict[int, int] = {}
        for number in job.holdings:
            node = self._nodes.get(number)
            share = None if node is None else node.given.get(job.job_id)
            if share is not None and (amount := getattr(share, self._name)):
                has[number] = amount
        return _columns(has)


class Series:
    """One of them over time.

    What jobs leave only rises as they end, so it is least at the beginning of a time.

    Args:
        now: what no job has, by node.
        ends: running jobs, by the time at which they are expected to end, ascending.
    """

    def __init__(self, stock: Stock, now: Amounts, ends: Ends) -> None:
        self._stock = stock
        self._ends = list(ends.items())
        self._free = [(0.0, 0, now)]  # from some times on, with the count of ends until then
        self._times = [0.0]  # at which what is taken changes
        self._taken = [np.zeros_like(now)]

    def take(self, first: float, last: float, numbers: Amounts, amounts: Amounts) -> None:
        """As much of these nodes is taken, from the first time until the last."""
        for row in self._taken[self._split(first) : self._split(last)]:
            row[numbers] += amounts

    def least(self, first: float, last: float, numbers: Amounts | slice = ALL) -> Amounts:
        """The least of each node from one time until another.

        Args:
            numbers: of these nodes, in this order.
        """
        index = bisect_right(self._times, first) - 1
        most = self._taken[index][numbers]
        for row in self._taken[index + 1 : bisect_left(self._times, last)]:
            most = np.maximum(most, row[numbers])
        least: Amounts = self._left_by_jobs(first)[numbers] - most
        return least

    def _split(self, at: float) -> int:
        """Let a row begin at a time; its index."""
        index = bisect_left(self._times, at)
        if at < inf and (index == len(self._times) or self._times[index] != at):
            self._times.insert(index, at)
            self._taken.insert(index, self._taken[index - 1].copy())
        return index

    def _left_by_jobs(self, at: float) -> Amounts:
        """What no job has at a time."""
        place = bisect_right(self._free, at, key=itemgetter(0)) - 1
        _, count, free = self._free[place]
        over = count
        while over < len(self._ends) and self._ends[over][0] <= at:
            over += 1
        if over > count:
            free = free.copy()
            for _, jobs in self._ends[count:over]:
                self._stock.give_back(jobs, free)
            self._free.insert(place + 1, (at, over, free))
        return free


class Supply:
    """What requests for memory and GPUs find in a profile.

    Args:
        count: the length of its rows.
        ends: as for :class:`Series`.
    """

    def __init__(self, stocks: Mapping[str, Stock], count: int, ends: Ends) -> None:
        self._stocks = stocks
        self._count = count
        self._ends = ends
        self._series: dict[str, Series] = {}

    def fill(
        self, first: float, last: float, needs: Needs, numbers: Amounts, ranks: Amounts
    ) -> None:
        """So many ranks of each of these nodes have what they need, as for :meth:`take`."""
        for name, (whole, each) in _counted(needs).items():
            if (series := self._series.get(name)) is not None:
                series.take(first, last, numbers, whole + each * ranks.astype(np.int64))

    def take(
        self, first: float, last: float, specs: Sequence[NodeSpec], picks: Sequence[Picks]
    ) -> None:
        """The members of a request have what they need, from the first time until the last."""
        for name, series in self._series.items():
            taken: dict[int, int] = {}
            for spec, of_spec in zip(specs, picks, strict=True):
                if spec.needs is None or name not in _counted(spec.needs):
                    continue
                for number, ranks in ranks_on(of_spec).items():
                    amount: int = getattr(spec.needs.share(ranks), name)
                    taken[number] = taken.get(number, 0) + amount
            if taken:
                series.take(first, last, *_columns(taken))

    def least(
        self, needs: Iterable[Needs], first: float, last: float, numbers: Amounts | slice = ALL
    ) -> dict[str, Amounts]:
        """The least memory and GPUs of each node in a time, where a request needs any.

        Args:
            numbers: as for :meth:`Series.least`.
        """
        found = {}
        for name in {name for each in needs for name in _counted(each)}:
            if (series := self._series.get(name)) is None:
                stock = self._stocks[name]
                now = stock.now(self._count).copy()
                series = self._series[name] = Series(stock, now, self._ends)
            found[name] = series.least(first, last, numbers)
        return found


def stocks_of(nodes: NodeTable, jobs: JobTable) -> dict[str, Stock]:
    """Memory and GPUs."""
    return {name: Stock(name, nodes, jobs) for name in ("memory", "gpus")}


def room_for(spec: NodeSpec, least: Mapping[str, Amounts]) -> Amounts | None:
    """The slots of each node that ranks of a spec could fill by memory and GPUs; None: all."""
    if (needs := spec.needs) is None or not least:
        return None
    room: Amounts | None = None
    for name, (whole, each) in _counted(needs).items():
        left = least[name] - whole
        most = SLOTS_MAX // spec.cores
        here = np.minimum(left // each, most) if each else np.full_like(left, most)
        here[left < 0] = 0
        room = here if room is None else np.minimum(room, here)
    return None if room is None else room * spec.cores


def supplied(
    least: Mapping[str, Amounts], cores: Callable[[Node], Share] | None
) -> Callable[[Node], Share]:
    """What each node has for a request; of what it does not ask for, nothing.

    Args:
        cores: what is left of a node with its cores; None: it asks for none.
    """
    memory, gpus = least.get("memory"), least.get("gpus")

    def left(node: Node) -> Share:
        return Share(
            0 if memory is None else max(0, int(memory[node.number])),
            0 if gpus is None else max(0, int(gpus[node.number])),
            () if cores is None else cores(node).cores,
        )

    return left


def is_counted(needs: Needs) -> bool:
    """Whether any memory or GPUs are needed."""
    return bool(_counted(needs))


def _counted(needs: Needs) -> dict[str, tuple[int, int]]:
    """What a member needs of which, on each node and for each rank."""
    asked = {
        "memory": (needs.memory, needs.rank_memory),
        "gpus": (needs.node_gpus, needs.gpus),
    }
    return {name: each for name, each in asked.items() if any(each)}


def _columns(by_node: Mapping[int, int]) -> tuple[Amounts, Amounts]:
    numbers = np.fromiter(by_node, dtype=np.int64, count=len(by_node))
    return numbers, np.fromiter(by_node.values(), dtype=np.int64, count=len(by_node))
