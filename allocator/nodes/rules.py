"""Which consecutive nodes have names and addresses that count up. Pure.

A byte for each number says whether a rule begins there, so that the rules of a hundred
thousand nodes are found as fast as bytes can be searched, and are kept up to date node by
node.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Protocol

from native.ids import PortalId
from native.wire.placed import GrantedNode, JobNodes, NodeRule, NodeSpan, step_between

Step = tuple[bool, int]  # as of native.wire.placed.step_between
NO_STEP = 0


class Known(Protocol):
    """What is known of a node."""

    @property
    def number(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def address(self) -> PortalId: ...


class Rules:
    """The rules of a partition's nodes.

    Args:
        nodes: by number; who changes a name or an address says so by :meth:`changed`.
    """

    def __init__(self, nodes: Mapping[int, Known]) -> None:
        self._nodes = nodes
        self._begins = bytearray(b"\1" * 64)  # by number; numbers without a node, too
        self._steps = array("H", bytes(2 * 64))  # from the node before, each as one number

    def changed(self, number: int) -> None:
        """A node is here, or has another name or address."""
        if number + 3 > len(self._begins):
            grown = max(number + 3, 2 * len(self._begins))
            self._begins += b"\1" * (grown - len(self._begins))
            self._steps.frombytes(bytes(2 * (grown - len(self._steps))))
        self._look_at_step(number)
        self._look_at_step(number + 1)
        for at in range(number, len(self._begins)):
            now = self._is_begin(at)
            if at > number + 2 and now == self._begins[at]:
                return  # it depends on the steps to it and to the number before, and on that one
            self._begins[at] = now

    def of(self, spans: tuple[NodeSpan, ...]) -> JobNodes:
        """Nodes of a job, with the rules that these need."""
        begins = self._begins
        found: dict[int, int] = {}  # first and behind the last of each rule
        first = behind = 0
        for span in spans:
            at, end = span.node, span.node + span.count
            while at < end:
                if not first <= at < behind:
                    first = at if begins[at] else begins.rfind(1, 0, at)
                    behind = found[first] = self._behind(at)
                at = behind
        return JobNodes(
            tuple([self._rule(*found_one) for found_one in sorted(found.items())]), spans
        )

    def check(self) -> None:
        """Assert what must always hold."""
        for number in range(len(self._begins)):
            assert self._begins[number] == self._is_begin(number), number
            assert _step_of(self._steps[number]) == self._step(number), number

    def _rule(self, first: int, behind: int) -> NodeRule:
        node, count = self._nodes[first], behind - first
        counts_nid, digits = (_step_of(self._steps[first + 1]) if count > 1 else None) or (False, 0)
        return NodeRule(first, count, node.name, digits, *node.address, counts_nid)

    def _behind(self, number: int) -> int:
        """Where the next rule begins."""
        behind = self._begins.find(1, number + 1)
        return behind if behind > 0 else len(self._begins)

    def _is_begin(self, number: int) -> bool:
        """Whether the rule that the number before is in does not go on here."""
        step = self._steps[number]
        if step == NO_STEP:
            return True
        return not self._begins[number - 1] and step != self._steps[number - 1]

    def _look_at_step(self, number: int) -> None:
        self._steps[number] = _number_of(self._step(number))

    def _step(self, number: int) -> Step | None:
        if number not in self._nodes or number - 1 not in self._nodes:
            return None
        return step_between(self._granted(number - 1), self._granted(number))

    def _granted(self, number: int) -> GrantedNode:
        node = self._nodes[number]
        return GrantedNode(node.number, node.name, *node.address)


def _number_of(step: Step | None) -> int:
    """A step as one number: a name has no more than NAME_MAX places for digits."""
    return NO_STEP if step is None else 1 + step[0] + 2 * step[1]


def _step_of(number: int) -> Step | None:
    return None if number == NO_STEP else (bool(number - 1 & 1), number - 1 >> 1)
