"""Which leaf switches a request could be below, where it wants few. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from allocator.nodes.policies import Ints

if TYPE_CHECKING:
    from allocator.nodes.placement import ArrayPlacement

TRIED_COUNT = 8  # single switches that are tried, and sets of several


def could(placement: ArrayPlacement, slots: int) -> bool:
    """Whether there are so many free slots below as few leaf switches as it says."""
    fullest = np.sort(placement.free_below())[::-1][: placement.switches]
    return int(fullest.sum()) >= slots


def count_of(placement: ArrayPlacement, numbers: Collection[int]) -> int:
    """Below how many leaf switches these nodes are."""
    there = np.fromiter(numbers, dtype=np.int64, count=len(numbers))
    return len(np.unique(placement.leaf[there]))


def choices(
    placement: ArrayPlacement, room: Mapping[int, int] | None, wanted: int, node_count: int
) -> Iterator[ArrayPlacement]:
    """The free slots below some leaf switches, as few as can be first.

    Args:
        room: what each node has for the request; None: its free slots.
        wanted: how much of that it wants in all.
        node_count: of how many nodes; 0: of any.
    """
    has = placement.free_slots()
    if room is not None:
        has = np.zeros_like(has)
        has[list(room)] = list(room.values())
    with_room = placement.below_each((has > 0).astype(np.int64))
    below = placement.below_each(_most(placement, has, node_count) if node_count else has)
    single = np.flatnonzero((below >= wanted) & (with_room >= node_count))
    for leaf in single[np.argsort(below[single], kind="stable")][:TRIED_COUNT]:
        yield placement.below(np.array([leaf]))
    for by, least in ((below, wanted), (with_room, node_count)):
        if not least:
            continue
        fullest = np.argsort(-by, kind="stable")
        fewest = int(np.searchsorted(np.cumsum(by[fullest]), least)) + 1
        for count in range(max(2, fewest), placement.switches)[: TRIED_COUNT - 1]:
            yield placement.below(fullest[:count])
        if placement.switches > 1:
            yield placement.below(fullest[: placement.switches])


def _most(placement: ArrayPlacement, has: Ints, node_count: int) -> Ints:
    """The same of the nodes alone that have most, so many of each leaf switch."""
    most = np.zeros_like(has)
    leaf = placement.leaf[: len(has)]
    for each in np.unique(leaf[has > 0]):
        here = np.flatnonzero((leaf == each) & (has > 0))
        kept = here[np.argsort(-has[here], kind="stable")[:node_count]]
        most[kept] = has[kept]
    return most
