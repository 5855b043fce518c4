"""The free slots of all nodes from now on: as running jobs end, and others are expected to begin.

Times are seconds from now. A row holds from its time to that of the next one; the last for ever.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from allocator.jobs.assign import Picks, attempt, slots_on
from allocator.jobs.job import Job
from allocator.nodes.access import Claim
from allocator.nodes.node import Node
from allocator.nodes.placement import ArrayPlacement
from allocator.nodes.table import NodeTable
from native.wire.alloc import NodeRequest, Share

ROWS_COUNT = 128  # of ends of running jobs; where there are more, some are taken for later

Slots = npt.NDArray[np.int64]  # by node number
_Item = TypeVar("_Item")


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

    Args:
        placement: how slots are chosen, and what is free now.
        ends: running jobs, and the seconds until each is expected to end.
    """

    def __init__(
        self, nodes: NodeTable, placement: ArrayPlacement, ends: Iterable[tuple[float, Job]]
    ) -> None:
        self._nodes = nodes
        self._placement = placement
        self._times = [0.0]
        self._rows = [placement.free_slots()]
        self._ended: list[tuple[float, int]] = []  # times of ends, and jobs
        self._totals = np.zeros_like(self._rows[0])
        for node in nodes:
            self._totals[node.number] = node.slots
        for group in _grouped(sorted(ends, key=lambda end: end[0]), ROWS_COUNT):
            self._add_ends(group[-1][0], [job for _, job in group])

    def _add_ends(self, at: float, jobs: Sequence[Job]) -> None:
        row = self._rows[-1].copy()
        for job in jobs:
            self._ended.append((at, job.job_id))
            for number, holding in job.holdings.items():
                node = self._nodes.get(number)
                if node is not None and node.is_open:
                    row[number] = min(row[number] + holding.slots, node.slots)
        self._times.append(at)
        self._rows.append(row)

    def earliest(
        self, request: NodeRequest, claim: Claim, time_s: float, before: float = float("inf")
    ) -> Start | None:
        """When a request finds its slots free for so long; None: not as far as is known.

        Args:
            before: seconds from now; no later time is tried.
        """
        wanted = sum(spec.slots for spec in request.specs)
        for index, at in enumerate(self._times):
            if at >= before:
                return None
            free = self._lowest(index, at + time_s)
            if int(free.sum()) < wanted:
                continue
            if request.is_exclusive:
                free = np.where(free == self._totals, free, 0)
            placement = self._placement.with_free(free).admitting(claim)
            picks = attempt(request.specs, self._nodes, placement, self._left_at(at))
            if isinstance(picks, list):
                return Start(at, picks, placement)
        return None

    def take(self, start: Start, request: NodeRequest, time_s: float, *, is_given: bool) -> None:
        """A request has, or is to have, these slots for its time.

        Args:
            is_given: the nodes know of it, with the memory and the cores that it has. For one that
                is expected these are not counted, so nobody gets a slot beside it.
        """
        slots = slots_on(request.specs, start.picks)
        numbers = np.fromiter(slots, dtype=np.int64, count=len(slots))
        is_alone = request.is_exclusive or (
            not is_given and any(spec.needs is not None for spec in request.specs)
        )
        first = bisect_left(self._times, start.at)
        for row in self._rows[first : self._split(start.at + time_s)]:
            if is_alone:
                row[numbers] = 0
            else:
                row[numbers] -= np.fromiter(slots.values(), dtype=np.int64, count=len(slots))

    def _split(self, at: float) -> int:
        """Let a row begin at a time; gives its index, or how many there are: it is never."""
        if at == float("inf"):
            return len(self._rows)
        index = bisect_left(self._times, at)
        if index == len(self._times) or self._times[index] != at:
            self._times.insert(index, at)
            self._rows.insert(index, self._rows[index - 1].copy())
        return index

    def _lowest(self, index: int, until: float) -> Slots:
        """What is free of each node from a row on up to a time."""
        last = max(index + 1, bisect_left(self._times, until))
        rows = self._rows[index:last]
        return rows[0] if len(rows) == 1 else np.minimum.reduce(rows)

    def _left_at(self, at: float) -> Callable[[Node], Share]:
        """Memory, GPUs and cores of a node that no job has at a time."""
        if not at:
            return Node.left
        gone = {job_id for end, job_id in self._ended if end <= at}

        def left(node: Node) -> Share:
            return node.share.less([each for job, each in node.given.items() if job not in gone])

        return left


def _grouped(items: list[_Item], most: int) -> Iterable[list[_Item]]:
    """At most so many lists, of about the same length."""
    size = max(1, -(-len(items) // most))
    return (items[first : first + size] for first in range(0, len(items), size))
