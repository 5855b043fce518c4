"""Where the ranks of a job are, on nodes and on the cores of a node: by what is alike, not one by
one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cached_property
from itertools import accumulate
from typing import Annotated

from msgspec import Meta

from native.wire.base import MEMBERS_MAX, SIZE_MAX, SLOTS_MAX, NodeCount, NodeNumber, Part

GROUPS_MAX = 256  # of the cores of one node
SOCKETS_MAX = 256
THREADS_MAX = 64  # of one core
ROWS_MAX = 4096  # of one job on one node

SocketNumber = Annotated[int, Meta(ge=0, lt=SOCKETS_MAX)]
SocketCount = Annotated[int, Meta(ge=0, le=SOCKETS_MAX)]
NumaNumber = Annotated[int, Meta(ge=0, lt=1 << 16)]
ThreadCount = Annotated[int, Meta(ge=1, le=THREADS_MAX)]
ThreadLimit = Annotated[int, Meta(ge=0, le=THREADS_MAX)]
CoreCount = Annotated[int, Meta(ge=0, le=SLOTS_MAX)]
RankLimit = Annotated[int, Meta(ge=0, le=SLOTS_MAX)]
MemberNumber = Annotated[int, Meta(ge=0, lt=MEMBERS_MAX)]
GroupNumber = Annotated[int, Meta(ge=0, lt=GROUPS_MAX)]
CoreCounts = Annotated[tuple[CoreCount, ...], Meta(max_length=GROUPS_MAX)]
CoreRow = tuple[MemberNumber, GroupNumber, CoreCount]
CoreRows = Annotated[tuple[CoreRow, ...], Meta(max_length=ROWS_MAX)]


class RunRange(Part, frozen=True):
    """Consecutive ranks on consecutive places.

    Attributes:
        place: index into the job's nodes, of the first.
        count: ranks on each.
        places: how many.
    """

    place: NodeNumber
    count: Annotated[int, Meta(ge=1, le=SIZE_MAX)]
    places: NodeCount = 1


class Run(Part, frozen=True):
    """Consecutive ranks on one node.

    Attributes:
        place: index into the job's nodes.
        count: ranks.
    """

    place: NodeNumber
    count: Annotated[int, Meta(ge=1, le=SIZE_MAX)]


class JobRuns(Part, frozen=True, dict=True):
    """Where the ranks of a job are: ranks 0, 1, ... in order, over the job's nodes."""

    ranges: Annotated[tuple[RunRange, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        if self.size > SIZE_MAX:
            raise ValueError(f"{self.size} ranks contradict the limit of {SIZE_MAX}")

    @classmethod
    def of(cls, runs: Iterable[Run]) -> JobRuns:
        """These runs, in their order."""
        ranges: list[RunRange] = []
        for run in runs:
            add_run(ranges, run.place, run.count)
        return cls(tuple(ranges))

    def __iter__(self) -> Iterator[Run]:
        for each in self.ranges:
            for place in range(each.place, each.place + each.places):
                yield Run(place, each.count)

    @property
    def size(self) -> int:
        """Ranks."""
        return sum(each.count * each.places for each in self.ranges)

    @property
    def end(self) -> int:
        """Behind the highest place."""
        return max(each.place + each.places for each in self.ranges)

    def places(self) -> Iterator[int]:
        """The place of each rank."""
        for each in self.ranges:
            for place in range(each.place, each.place + each.places):
                for _ in range(each.count):
                    yield place

    def counts(self, places: int) -> list[int]:
        """How many ranks each of so many places has."""
        counts = [0] * places
        for each in self.ranges:
            for place in range(each.place, each.place + each.places):
                counts[place] += each.count
        return counts

    def totals(self) -> Iterator[tuple[int, int, int]]:
        """A first place, how many places, and how many ranks each has in all."""
        if self._index[1]:
            for each in self.ranges:
                yield each.place, each.places, each.count
            return
        for place, count in enumerate(self.counts(self.end)):
            yield place, 1, count

    def ranks_at(self, place: int) -> tuple[int, ...]:
        """The ranks of one node, ascending."""
        found: list[int] = []
        for first, each in self._at(place):
            if 0 <= place - each.place < each.places:
                start = first + (place - each.place) * each.count
                found += range(start, start + each.count)
        return tuple(found)

    def _at(self, place: int) -> list[tuple[int, RunRange]]:
        """Ranges that may have ranks on a place, with the first rank of each."""
        firsts, ascends = self._index
        if not ascends:
            return list(zip(firsts, self.ranges, strict=True))
        index = bisect_right(self.ranges, place, key=lambda each: each.place) - 1
        return [(firsts[index], self.ranges[index])] if index >= 0 else []

    @cached_property
    def _index(self) -> tuple[list[int], bool]:
        """The first rank of each range; whether the ranges ascend, with each place once."""
        firsts = [0, *accumulate(each.count * each.places for each in self.ranges)][:-1]
        behind, ascends = 0, True
        for each in self.ranges:
            ascends = ascends and each.place >= behind
            behind = each.place + each.places
        return firsts, ascends


def add_run(ranges: list[RunRange], place: int, count: int, places: int = 1) -> None:
    """Add consecutive ranks behind those that are there."""
    if ranges:
        last = ranges[-1]
        behind = last.place + last.places
        if place == behind and count == last.count:
            ranges[-1] = RunRange(last.place, count, last.places + places)
            return
        if last.places == places == 1 and place == last.place:
            ranges[-1] = RunRange(place, last.count + count)
            return
    ranges.append(RunRange(place, count, places))


class CoreGroup(Part, frozen=True):
    """Cores of a node that no selector tells apart.

    Attributes:
        numa: the NUMA node; the part of one that lies in another socket is another group.
        threads: hardware threads of each core that jobs may use.
    """

    socket: SocketNumber
    numa: NumaNumber
    threads: ThreadCount
    cores: CoreCount


CoreGroups = Annotated[tuple[CoreGroup, ...], Meta(max_length=GROUPS_MAX)]


class Reach(Enum):
    """To what a rank is bound."""

    CORE = "core"  # its own cores
    SOCKET = "socket"  # all cores of the socket that its own are of
    NUMA = "numa"  # all cores of the NUMA node that its own are of


class Binding(Part, frozen=True):
    """Ranks are bound, each to whole cores that are its own, or to all around these.

    Attributes:
        per_socket: at most so many ranks on each socket; 0: any number.
        sockets: on so many sockets of each node, evenly; 0: any number.
        per_numa: at most so many ranks in each NUMA node; 0: any number.
        threads: of each core, which has at least so many; 0: all.
        is_whole: each rank has all cores that the job has on its node.
        reach: what it is bound to; None: nothing is said, its own cores.
    """

    per_socket: RankLimit = 0
    sockets: SocketCount = 0
    per_numa: RankLimit = 0
    threads: ThreadLimit = 0
    is_whole: bool = False
    reach: Reach | None = None

    @property
    def per_node(self) -> int:
        """At most so many ranks on each node; 0: as many as it has room for."""
        return self.per_socket * self.sockets

    @property
    def is_inside_sockets(self) -> bool:
        """All cores of a rank are of one socket."""
        is_wide = self.reach in (Reach.SOCKET, Reach.NUMA)
        return bool(self.per_socket or self.sockets or self.per_numa or is_wide)

    @property
    def is_inside_numa(self) -> bool:
        """All cores of a rank are of one NUMA node."""
        return bool(self.per_numa) or self.reach is Reach.NUMA


def summed(rows: tuple[CoreRow, ...]) -> tuple[int, ...]:
    """Cores by group, of all members."""
    counts = [0] * (1 + max((group for _, group, _ in rows), default=-1))
    for _, group, count in rows:
        counts[group] += count
    return tuple(counts)
