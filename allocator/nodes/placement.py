"""First fit over arrays: for partitions of thousands of nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from native.wire.placed import NodeSpan


class FirstFit:
    """Fills the free slots of the lowest-numbered nodes first."""

    def __init__(self) -> None:
        self._free = np.zeros(64, dtype=np.int64)  # by node number

    def take(self, spans: Sequence[NodeSpan]) -> None:
        """As many slots of each of these nodes are free no more."""
        single = [(span.node, span.slots) for span in spans if span.count == 1]
        if single:
            nodes, slots = np.array(single, dtype=np.int64).T
            self._free[nodes] -= slots  # each is there once
        for span in spans if len(single) < len(spans) else ():
            if span.count > 1:
                self._free[span.node : span.node + span.count] -= span.slots

    def set_free(self, node: int, count: int) -> None:
        """Set the count of a node's free slots."""
        if node >= len(self._free):
            grown = np.zeros(max(node + 1, 2 * len(self._free)), dtype=np.int64)
            grown[: len(self._free)] = self._free
            self._free = grown
        self._free[node] = count

    def free(self, node: int) -> int:
        """The count of a node's free slots."""
        return int(self._free[node]) if node < len(self._free) else 0

    def anywhere(self, size: int) -> list[NodeSpan] | None:
        """The lowest free slots; None: too few."""
        return self._fill(np.flatnonzero(self._free), size)

    def of_list(self, nodes: tuple[int, ...], size: int) -> list[NodeSpan] | None:
        """The first free slots of a list, in its order; None: too few."""
        listed = np.array([node for node in nodes if node < len(self._free)], dtype=np.int64)
        return self._fill(listed[self._free[listed] > 0], size)

    def _fill(self, nodes: npt.NDArray[np.int64], size: int) -> list[NodeSpan] | None:
        """Fill nodes that have something free, in their order.

        Args:
            nodes: shape (n,), numbers, each once.
            size: slots wanted, at least 1.
        """
        upto = np.cumsum(self._free[nodes])  # slots on this node and those before
        last = int(np.searchsorted(upto, size))
        if last == len(nodes):
            return None
        nodes = nodes[: last + 1]
        slots = self._free[nodes]
        slots[-1] -= int(upto[last]) - size
        apart = np.flatnonzero((np.diff(nodes) != 1) | (np.diff(slots) != 0)) + 1
        bounds = np.concatenate(([0], apart, [last + 1]))
        counts = np.diff(bounds)
        columns = (nodes[bounds[:-1]].tolist(), counts.tolist(), slots[bounds[:-1]].tolist())
        return [NodeSpan(*span) for span in zip(*columns, strict=True)]
