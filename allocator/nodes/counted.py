"""Memory and GPUs of nodes while the members of a request are placed, one after another.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from allocator.nodes.table import Node, NodeTable
from native.wire.alloc import NodeSpec, Share


class Counted:
    """What is left of each node.

    Args:
        left: of a node, before the request.
    """

    def __init__(self, nodes: NodeTable, left: Callable[[Node], Share]) -> None:
        self._nodes = nodes
        self._left = left
        self._taken: dict[int, list[Share]] = {}

    def room(self, spec: NodeSpec, number: int, room: int) -> int:
        """How many ranks of a spec a node takes, whose free slots are room for so many."""
        if spec.needs is None or not room:
            return room
        node = self._nodes.get(number)
        if node is None:
            return 0
        if not node.given and number not in self._taken:  # as most nodes
            return min(room, spec.needs.room(node.memory, len(node.gpus)))
        left = self._left(node)
        if number in self._taken:
            left = left.less(self._taken[number])
        return min(room, spec.needs.room(left.memory, left.gpus))

    def take(self, spec: NodeSpec, ranks_on: dict[int, int]) -> None:
        """A spec has so many ranks on each of these nodes."""
        if spec.needs is not None:
            for number, ranks in ranks_on.items():
                self._taken.setdefault(number, []).append(spec.needs.share(ranks))
