"""Where the ranks of a job are: by what is alike, not one by one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate
from typing import Annotated

from msgspec import Meta

from native.wire.base import SIZE_MAX, NodeCount, NodeNumber, Part


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
