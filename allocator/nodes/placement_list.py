"""First fit in plain Python: for the embedded partition, which imports no numpy."""

from __future__ import annotations

from collections.abc import Iterable

from native.wire.placed import NodeSpan, spans_of


class ListPlacement:
    """Fills the free slots of the lowest-numbered nodes first."""

    def __init__(self) -> None:
        self._free: dict[int, int] = {}
        self._order: list[int] | None = []  # ascending; None: sort again

    def set_free(self, node: int, count: int) -> None:
        """Set the count of a node's free slots."""
        if node not in self._free:
            self._order = None
        self._free[node] = count

    def take(self, spans: Iterable[NodeSpan]) -> None:
        """As many slots of each of these nodes are free no more."""
        for span in spans:
            for node in range(span.node, span.node + span.count):
                self._free[node] -= span.slots

    def free(self, node: int) -> int:
        """The count of a node's free slots."""
        return self._free.get(node, 0)

    def anywhere(self, size: int) -> list[NodeSpan] | None:
        """The lowest free slots; None: too few."""
        if self._order is None:
            self._order = sorted(self._free)
        return self._fill(self._order, size)

    def of_list(self, nodes: tuple[int, ...], size: int) -> list[NodeSpan] | None:
        """The first free slots of a list, in its order; None: too few."""
        return self._fill(nodes, size)

    def _fill(self, nodes: Iterable[int], size: int) -> list[NodeSpan] | None:
        picks: list[tuple[int, int]] = []
        for node in nodes:
            if count := min(self._free.get(node, 0), size):
                picks.append((node, count))
                size -= count
            if not size:
                return spans_of(picks)
        return None
