"""Placement in plain Python: for the embedded partition, which imports no numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from allocator.nodes.access import OPEN, Access, Claim, Least
from allocator.nodes.node import Node
from native.wire.alloc import Share
from native.wire.placed import NodeSpan, spans_of


class ListPlacement:
    """Fills the free slots of the lowest-numbered nodes first.

    All nodes are below one switch.

    Attributes:
        least, switches: as in :class:`allocator.nodes.table.Placement`.
    """

    switches = 0
    supply: Callable[[Node], Share] | None = None

    def __init__(self) -> None:
        self.least: tuple[Least, ...] = ()
        self._free: dict[int, int] = {}
        self._order: list[int] | None = []  # ascending; None: sort again
        self._unused: set[int] = set()
        self._kept: dict[int, Access] = {}  # nodes that not everybody may have

    def set_free(self, node: int, count: int, is_unused: bool = False) -> None:
        """Set the count of a node's free slots."""
        if node not in self._free:
            self._order = None
        self._free[node] = count
        (self._unused.add if is_unused else self._unused.discard)(node)

    def set_access(self, node: int, access: Access) -> None:
        """Set whose jobs may be given a node."""
        self._kept.pop(node, None)
        if access != OPEN:
            self._kept[node] = access

    def take(self, spans: Iterable[NodeSpan]) -> None:
        """As many slots of each of these nodes are free no more."""
        for span in spans:
            for node in range(span.node, span.node + span.count):
                self._free[node] -= span.slots
                self._unused.discard(node)

    def free(self, node: int) -> int:
        """The count of a node's free slots."""
        return self._free.get(node, 0)

    def admitting(self, claim: Claim) -> ListPlacement:
        """The same, with free slots on those nodes only that this claim may have."""
        shut = [node for node, access in self._kept.items() if not claim.may_have(access)]
        if claim.nodes:
            shut += [node for node in self._free if node not in claim.nodes]
        shut += [node for node in claim.without if node in self._free]
        if not shut and not claim.least:
            return self
        other = self._with(self._free | dict.fromkeys(shut, 0))
        other.least = claim.least or self.least
        return other

    def copy(self) -> ListPlacement:
        """The same; what is taken from it stays in this one."""
        return self._with(dict(self._free))

    def unused(self) -> ListPlacement:
        """The same, with free slots on those nodes only of which no job has any."""
        unused = self._unused
        return self._with({n: count if n in unused else 0 for n, count in self._free.items()})

    def in_order(self) -> Iterator[int]:
        """Nodes with a free slot, ascending."""
        return (node for node in self._ascending() if self._free[node] > 0)

    def anywhere(self, size: int) -> list[NodeSpan] | None:
        """The lowest free slots; None: too few."""
        return self._fill(self._ascending(), size)

    def nodes_with(self, slots: int, count: int) -> list[int] | None:
        """The lowest nodes with as many free slots each; None: too few."""
        able = []
        for node in self._ascending():
            if self._free[node] >= slots:
                able.append(node)
                if len(able) == count:
                    return able
        return None

    def of_list(self, nodes: tuple[int, ...], size: int) -> list[NodeSpan] | None:
        """The first free slots of a list, in its order; None: too few."""
        return self._fill(nodes, size)

    def _with(self, free: dict[int, int]) -> ListPlacement:
        """The same nodes with other free slots. It is not kept up to date."""
        other = ListPlacement()
        other._free, other._order, other._kept = free, self._ascending(), self._kept
        other._unused, other.least = set(self._unused), self.least
        return other

    def _ascending(self) -> list[int]:
        if self._order is None:
            self._order = sorted(self._free)
        return self._order

    def _fill(self, nodes: Iterable[int], size: int) -> list[NodeSpan] | None:
        picks: list[tuple[int, int]] = []
        for node in nodes:
            if count := min(self._free.get(node, 0), size):
                picks.append((node, count))
                size -= count
            if not size:
                return spans_of(picks)
        return None
