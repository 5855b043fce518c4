"""Defects of orders for nodes."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from allocator import operators
from allocator.nodes.node import Node as AllocatorNode
from allocator.nodes.orders import NONE, RecordOrders
from allocator.nodes.table import NodeTable
from native.machine import Action, Send
from native.wire import nodes as wire
from pct.events import Restart
from pct.node import Node
from tests.sim.defects.registry import Patch, defect_of
from tests.sim.scenario import operated

defect = defect_of(operated)


@defect
def a_drained_node_is_given_to_jobs(patch: Patch) -> None:
    def free(self: AllocatorNode) -> int:
        return max(0, self.slots - self.used()) if self.is_up else 0

    patch.setattr(AllocatorNode, "free", free)


@defect
def an_order_is_answered_before_it_is_on_the_disk(patch: Patch) -> None:
    original = operators.ordered

    def ordered(source: Any, order: wire.Order, nodes: Any, *more: Any) -> Any:
        (record,) = original(source, order, nodes, *more)
        assert isinstance(record, RecordOrders)
        return [Send(source, wire.Changed((), (), (), 0)), replace(record, asker=None)]

    patch.setattr(operators, "ordered", ordered)


@defect
def orders_are_forgotten_by_the_next_bebopd(patch: Patch) -> None:
    original = NodeTable.__init__

    def begin(self: Any, placement: Any, fixed: Any, remembered: Any, _: Any, *more: Any) -> None:
        original(self, placement, fixed, remembered, {}, *more)

    patch.setattr(NodeTable, "__init__", begin)


@defect
def a_restart_ends_a_drain(patch: Patch) -> None:
    original = operators.announced

    def announced(node: AllocatorNode) -> Any:
        return [replace(each, changes=((node.number, NONE),)) for each in original(node)]

    patch.setattr(operators, "announced", announced)


@defect
def a_pct_is_told_to_restart_while_a_load_is_on_its_way(patch: Patch) -> None:
    patch.setattr(operators, "due", _told)


@defect
def a_pct_restarts_with_its_jobs(patch: Patch) -> None:
    def then_restart(self: Node, actions: list[Action]) -> list[Action]:
        return [*actions, Restart()] if self._is_restarting else actions

    patch.setattr(operators, "due", _told)
    patch.setattr(Node, "_then_restart", then_restart)


def _told(numbers: Any, nodes: Any) -> Any:
    """Tell every PCT that is to restart, whatever jobs have its node."""
    return [
        Send(node.peer, wire.RestartNow(False))
        for number in sorted(numbers)
        if (node := nodes.get(number)) and node.is_up and (restart := node.orders.restart)
        if restart.incarnation == node.incarnation
    ]
