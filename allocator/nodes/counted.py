"""Memory, GPUs and cores of nodes while the members of a request are placed, one after another.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from allocator.nodes.layout import lay, room
from allocator.nodes.node import Node
from allocator.nodes.table import NodeTable
from native.wire.alloc import NodeSpec, Share


class Counted:
    """What is left of each node.

    Args:
        left: of a node, before the request.
    """

    def __init__(self, nodes: NodeTable, left: Callable[[Node], Share]) -> None:
        self._nodes = nodes
        self._left = left
        self._is_now = left is Node.left
        self._taken: dict[int, list[Share]] = {}

    def room(self, spec: NodeSpec, number: int, most: int) -> int:
        """How many ranks of a spec a node takes, whose free slots are room for so many."""
        if spec.needs is None or not most:
            return most
        node = self._nodes.get(number)
        if node is None:
            return 0
        is_whole = self._is_now and not node.given and number not in self._taken
        if is_whole and spec.needs.binding is None:
            return min(most, spec.needs.room(node.memory, len(node.gpus)))  # as most nodes
        left = self._left_of(node)
        most = min(most, spec.needs.room(left.memory, left.gpus))
        if spec.needs.binding is None or not most:
            return most
        return min(most, room(spec.needs.binding, spec.cores, node.cores, left.cores))

    def take(self, spec: NodeSpec, ranks_on: dict[int, int]) -> dict[int, Share]:
        """A spec has so many ranks on each of these nodes; gives what they take of each."""
        if spec.needs is None:
            return {}
        taken = {}
        for number, ranks in ranks_on.items():
            share = spec.needs.share(ranks)
            node = self._nodes.get(number)
            if spec.needs.binding is not None and node is not None:
                left = self._left_of(node).cores
                cores = lay(spec.needs.binding, spec.cores, node.cores, left, ranks)
                assert cores is not None, (spec, node, ranks)
                share = Share(share.memory, share.gpus, cores)
            self._taken.setdefault(number, []).append(share)
            taken[number] = share
        return taken

    def _left_of(self, node: Node) -> Share:
        """What is left of a node behind what this request has taken so far."""
        left = self._left(node)
        return left.less(self._taken[node.number]) if node.number in self._taken else left
