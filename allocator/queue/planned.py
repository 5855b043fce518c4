"""Cores that ranks of those who wait are to be bound to, over time. Pure.

Times are those of the profile that this belongs to (:mod:`allocator.queue.profile`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from allocator.nodes.node import Node
from native.wire.alloc import Share

Cores = tuple[int, ...]  # of one node, by group


class _Kept(Struct, frozen=True):
    """What one request is to have, from one time until another."""

    first: float
    last: float
    by_node: Mapping[int, Cores]


class PlannedCores:
    """All that is kept."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []

    def keep(self, first: float, last: float, by_node: Mapping[int, Cores]) -> None:
        """These cores are kept for a time."""
        self._kept.append(_Kept(first, last, by_node))

    def behind(
        self, left: Callable[[Node], Share], first: float, last: float
    ) -> Callable[[Node], Share]:
        """What is left of each node without what is kept at any moment of a time."""
        there = [each for each in self._kept if each.first < last and first < each.last]
        if not there:
            return left
        moments = sorted({max(first, each.first) for each in there})

        def less(node: Node) -> Share:
            share, most = left(node), [0] * len(node.cores)
            ours = [each for each in there if node.number in each.by_node]
            for moment in moments if ours else ():
                now = [0] * len(most)
                for each in ours:
                    if each.first <= moment < each.last:
                        for group, count in enumerate(each.by_node[node.number][: len(now)]):
                            now[group] += count
                most = list(map(max, most, now))
            return share.less((Share(cores=tuple(most)),))

        return less
