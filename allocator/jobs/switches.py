"""Slots below few leaf switches (``--switches``).

First it is tried what would be chosen anyhow. Where that lies below too many switches, those are
tried that have most room together: below one switch the one with least that does, as that leaves
the others whole. For members of unlike shapes, counted features and the like the room is an
estimate, so some few choices are tried.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol, cast

from allocator.jobs.assign import Left, Picks, attempt, ranks_on
from allocator.jobs.selection import is_shaped, room_of
from allocator.nodes.table import NodeTable, Placement
from native.wire.alloc import NodeSpec


class Switched(Placement, Protocol):
    """A placement that knows of switches: :class:`allocator.nodes.placement.ArrayPlacement`."""

    def could_be_below(self, slots: int) -> bool: ...

    def leaves_of(self, numbers: Collection[int]) -> int: ...

    def below_few(
        self, room: Mapping[int, int] | None, wanted: int, node_count: int
    ) -> Iterator[Placement]: ...

    def below_any(self) -> Placement: ...


def below_few(
    specs: Sequence[NodeSpec], nodes: NodeTable, placement: Placement, supply: Left
) -> list[Picks] | int:
    """As :func:`allocator.jobs.assign.attempt`, below no more leaf switches than it says."""
    there = cast("Switched", placement)
    if not there.could_be_below(sum(spec.slots for spec in specs)):
        return 0
    picks = attempt(specs, nodes, there.below_any(), supply)
    if isinstance(picks, int) or there.leaves_of(nodes_of(picks)) <= placement.switches:
        return picks
    node_count = max(spec.node_count for spec in specs)
    for below in there.below_few(*_room(specs, nodes, placement, supply), node_count):
        picks = attempt(specs, nodes, below, supply)
        if isinstance(picks, list):
            return picks
    return 0


def nodes_of(picks: Sequence[Picks]) -> set[int]:
    """The nodes of all members."""
    return {number for of_spec in picks for number in ranks_on(of_spec)}


def _room(
    specs: Sequence[NodeSpec], nodes: NodeTable, placement: Placement, supply: Left
) -> tuple[Mapping[int, int] | None, int]:
    """What each node has for the members, None: free slots; and how much of it they want."""
    spec = specs[0]
    if len(specs) > 1 or not (is_shaped(spec) or spec.nodes):
        return None, sum(spec.slots for spec in specs)
    has = _counted_room(spec, nodes, supply)
    free = [(number, placement.free(number)) for number in spec.nodes or placement.in_order()]
    return {number: has(number, room_of(spec, count)) for number, count in free if count}, spec.size


def _counted_room(spec: NodeSpec, nodes: NodeTable, supply: Left) -> Callable[[int, int], int]:
    """How many ranks a node takes whose free slots are room for so many."""
    if spec.needs is None:
        return lambda number, most: most
    from allocator.nodes.counted import Counted  # few requests need memory, GPUs or cores

    counted = Counted(nodes, supply)
    return lambda number, most: counted.room(spec, number, most)
