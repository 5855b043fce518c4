"""The nodes of a job: by what is alike, not one by one.

Names and addresses that count up from node to node are one rule, and consecutive nodes with
as many slots each are one span. So a message does not grow with the nodes of a job, only
with the irregularities among them; what is not regular takes a rule for each node.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate, chain, repeat
from typing import Annotated, Self

from msgspec import Meta, Struct

from native.ids import PortalId
from native.wire.base import (
    NAME_MAX,
    NODE_MAX,
    SLOTS_MAX,
    U32,
    Attempt,
    JobId,
    JobMessage,
    Name,
    NodeCount,
    NodeNumber,
    Part,
)
from native.wire.runs import JobRuns

KNOWN_MAX = 16  # nodes of a job that are kept one by one
_DIGITS = re.compile("[0-9]+")


class GrantedNode(Struct, frozen=True):
    """One node of a job and where its PCT listens.

    Attributes:
        slots: given on it.
    """

    node: int
    name: str
    nid: int
    pid: int
    slots: int = 1


class NodeRule(Part, frozen=True):
    """Names and addresses of consecutive nodes: those of the first, counted up.

    Attributes:
        node: the first; ``name``, ``nid`` and ``pid`` are its own.
        digits: where in the name the digits begin that are counted up, with as many
            zeros in front as make them as wide as the first's.
        counts_nid: the nid counts up; else the pid does.
    """

    node: NodeNumber
    count: NodeCount
    name: Name
    digits: Annotated[int, Meta(ge=0, le=NAME_MAX)]
    nid: U32
    pid: U32
    counts_nid: bool

    def __post_init__(self) -> None:
        if self.count == 1:
            return
        further = self.count - 1
        if _DIGITS.match(self.name, self.digits) is None:
            raise ValueError(f"no digits contradict a rule of {self.count} nodes")
        if len(self.name_at(further)) > NAME_MAX:
            raise ValueError(f"{self.count} names contradict the limit of {NAME_MAX} characters")
        if max(self.address_at(further)) >= 1 << 32:
            raise ValueError(f"{self.count} addresses contradict the limit of 2^32")

    def name_at(self, offset: int) -> str:
        """The name of the node that so many follow the first."""
        return next(self.names(offset, 1))

    def names(self, offset: int, count: int) -> Iterator[str]:
        """The names of so many nodes, from the one that follows the first by an offset."""
        digits = _DIGITS.match(self.name, self.digits)
        if digits is None or self.count == 1:
            return repeat(self.name, count)
        head, tail, width = self.name[: self.digits], self.name[digits.end() :], len(digits[0])
        first = int(digits[0]) + offset
        return (f"{head}{number:0{width}d}{tail}" for number in range(first, first + count))

    def address_at(self, offset: int) -> PortalId:
        """The address of the node that so many follow the first."""
        if self.counts_nid:
            return PortalId(self.nid + offset, self.pid)
        return PortalId(self.nid, self.pid + offset)


class NodeLoan(Part, frozen=True):
    """Slots of consecutive nodes that a job has from another one, which stands still meanwhile.

    Attributes:
        node: the first.
        lender: whose slots they are.
        attempt: of the lender.
        slots: on each.
    """

    node: NodeNumber
    count: NodeCount
    lender: JobId
    attempt: Attempt
    slots: Annotated[int, Meta(ge=1, le=SLOTS_MAX)]


LOANS_MAX = 2048  # of one job
NodeLoans = Annotated[tuple[NodeLoan, ...], Meta(max_length=LOANS_MAX)]


class NodeSpan(Part, frozen=True):
    """Consecutive nodes of a job.

    Attributes:
        node: the first.
        slots: given on each.
    """

    node: NodeNumber
    count: NodeCount
    slots: Annotated[int, Meta(ge=1, le=SLOTS_MAX)]


# Nodes as first numbers and counts.
NumberRanges = Annotated[tuple[tuple[NodeNumber, NodeCount], ...], Meta(max_length=NODE_MAX + 1)]


class JobNodes(Part, frozen=True, dict=True):
    """The nodes of a job, in the order of their lowest rank; the first is the root's.

    Attributes:
        rules: names and addresses, in the order of the nodes' numbers; they may be of
            other nodes as well.
        spans: which nodes.
    """

    rules: Annotated[tuple[NodeRule, ...], Meta(min_length=1)]
    spans: Annotated[tuple[NodeSpan, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        if len(self.spans) == len(self.rules) == self.spans[0].count == 1:
            if not 0 <= self.spans[0].node - self.rules[0].node < self.rules[0].count:
                raise ValueError(f"no rule contradicts node {self.spans[0].node}")
            return  # as most jobs have it
        rules = [(rule.node, rule.count) for rule in self.rules]
        spans = sorted([(span.node, span.count) for span in self.spans])
        demand_ascending("rules", rules)
        demand_ascending("node numbers", spans)
        at, known, begin, end = 0, len(rules), 0, 0  # all numbers from begin to end have a rule
        for first, count in spans:
            while at < known and end < first + count:
                if rules[at][0] != end:
                    begin = rules[at][0]
                end = rules[at][0] + rules[at][1]
                at += 1
            if first < begin or first + count > end:
                raise ValueError(f"no rule contradicts node {first}")

    @classmethod
    def of(cls, nodes: Iterable[GrantedNode]) -> JobNodes:
        """These nodes, in their order."""
        listed = list(nodes)
        rules: list[NodeRule] = []
        before: GrantedNode | None = None
        for node in sorted(listed, key=lambda node: node.node):
            step = None if before is None else step_between(before, node)
            last = rules[-1] if rules else None
            is_further = last is not None and (
                last.count == 1 or step == (last.counts_nid, last.digits)
            )
            if last is None or step is None or not is_further:
                rules.append(rule_of(node.node, 1, node, None))
            else:
                named = GrantedNode(last.node, last.name, last.nid, last.pid)
                rules[-1] = rule_of(last.node, last.count + 1, named, step)
            before = node
        return cls(tuple(rules), tuple(spans_of((node.node, node.slots) for node in listed)))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, place: int) -> GrantedNode:
        if (node := self._known.get(place)) is None:
            number, slots = self._at(place)
            rule = self._rule(number)
            offset = number - rule.node
            node = GrantedNode(number, rule.name_at(offset), *rule.address_at(offset), slots)
            if len(self._known) < KNOWN_MAX:
                self._known[place] = node
        return node

    def __iter__(self) -> Iterator[GrantedNode]:
        for span in self.spans:
            for first, rule, count in self._pieces(span.node, span.count):
                offset = first - rule.node
                for index, name in enumerate(rule.names(offset, count)):
                    at = rule.address_at(offset + index)
                    yield GrantedNode(first + index, name, *at, span.slots)

    def address(self, place: int) -> PortalId:
        """Where the PCT of a place listens."""
        number, _ = self._at(place)
        rule = self._rule(number)
        return rule.address_at(number - rule.node)

    def numbers(self) -> Iterator[int]:
        """The number of each node."""
        return chain.from_iterable(range(span.node, span.node + span.count) for span in self.spans)

    def addresses(self) -> Iterator[PortalId]:
        """Where each PCT listens."""
        for span in self.spans:
            for first, rule, count in self._pieces(span.node, span.count):
                offset = first - rule.node
                yield from map(rule.address_at, range(offset, offset + count))

    def names(self) -> Iterator[str]:
        """The name of each node."""
        for span in self.spans:
            for first, rule, count in self._pieces(span.node, span.count):
                yield from rule.names(first - rule.node, count)

    def count_at(self, nid: int) -> int:
        """How many nodes have this nid."""
        found = 0
        for span in self.spans:
            for first, rule, count in self._pieces(span.node, span.count):
                if not rule.counts_nid:
                    found += count if rule.nid == nid else 0
                elif 0 <= nid - rule.nid - (first - rule.node) < count:
                    found += 1
        return found

    def place_of(self, number: int) -> int | None:
        """The place of a node; None: it has none."""
        index = bisect_right(self._by_number, (number, NODE_MAX, 0)) - 1
        if index < 0:
            return None
        first, place, count = self._by_number[index]
        return place + number - first if number - first < count else None

    def has_address(self, nid: int, pid: int) -> bool:
        """Whether one of the PCTs listens there."""
        for rule in self.rules:
            offset = nid - rule.nid if rule.counts_nid else pid - rule.pid
            is_there = 0 <= offset < rule.count and rule.address_at(offset) == (nid, pid)
            if is_there and self.place_of(rule.node + offset) is not None:
                return True
        return False

    def beyond(self, runs: JobRuns) -> tuple[int, int] | None:
        """A place and its ranks, where these are more than its slots; None: nowhere."""
        for first, places, count in runs.totals():
            index, place = bisect_right(self._ends, first), first
            while place < first + places:
                if count > self.spans[index].slots:
                    return place, count
                place, index = self._ends[index], index + 1
        return None

    @cached_property
    def _known(self) -> dict[int, GrantedNode]:
        """By place, the first that somebody has asked for: a PCT asks for its own often."""
        return {}

    @cached_property
    def _ends(self) -> list[int]:
        """By span, the place behind its last."""
        return list(accumulate(span.count for span in self.spans))

    @cached_property
    def _firsts(self) -> list[int]:
        """The first node of each rule."""
        return [rule.node for rule in self.rules]

    @cached_property
    def _by_number(self) -> list[tuple[int, int, int]]:
        """First node, its place and how many nodes; ascending."""
        places = (end - span.count for end, span in zip(self._ends, self.spans, strict=True))
        rows = zip(self.spans, places, strict=True)
        return sorted((span.node, place, span.count) for span, place in rows)

    def _at(self, place: int) -> tuple[int, int]:
        """Number and slots of a place; -1 is the last one."""
        place += len(self) if place < 0 else 0
        index = bisect_right(self._ends, place)
        if place < 0 or index == len(self.spans):
            raise IndexError(place)
        span = self.spans[index]
        return span.node + place - self._ends[index] + span.count, span.slots

    def _rule(self, number: int) -> NodeRule:
        return self.rules[bisect_right(self._firsts, number) - 1]

    def _pieces(self, number: int, count: int) -> Iterator[tuple[int, NodeRule, int]]:
        """Consecutive nodes as pieces of one rule: the first node, its rule, how many.

        Raises:
            ValueError: one of them has no rule.
        """
        index = bisect_right(self._firsts, number) - 1
        while count:
            rule = self.rules[index] if 0 <= index < len(self.rules) else None
            if rule is None or not 0 <= number - rule.node < rule.count:
                raise ValueError(f"no rule contradicts node {number}")
            here = min(count, rule.count - (number - rule.node))
            yield number, rule, here
            number, count, index = number + here, count - here, index + 1


def ranges_of(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Nodes in any order as ranges."""
    spans = spans_of((number, 0) for number in sorted(set(numbers)))
    return tuple((span.node, span.count) for span in spans)


def numbers_in(ranges: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """The nodes of ranges, one by one."""
    return tuple(chain.from_iterable(range(first, first + count) for first, count in ranges))


def spans_of(slots: Iterable[tuple[int, int]]) -> list[NodeSpan]:
    """Nodes with their slots, in their order, as spans."""
    spans: list[tuple[int, int, int]] = []
    first, count, each = -1, 0, 0
    for node, here in slots:
        if count and node == first + count and here == each:
            count += 1
            continue
        if count:
            spans.append((first, count, each))
        first, count, each = node, 1, here
    if count:
        spans.append((first, count, each))
    return [NodeSpan(*span) for span in spans]


def counted(before: str, after: str) -> int:
    """Where in a name the digits begin by which the other follows it; -1: it does not."""
    start = 0
    for one, other in zip(before, after, strict=False):
        if one != other:
            break
        start += 1
    while start and before[start - 1] in "0123456789":
        start -= 1
    old, new = _DIGITS.match(before, start), _DIGITS.match(after, start)
    if old is None or new is None or before[old.end() :] != after[new.end() :]:
        return -1
    return start if new[0] == str(int(old[0]) + 1).zfill(len(old[0])) else -1


def step_between(before: GrantedNode, after: GrantedNode) -> tuple[bool, int] | None:
    """How one rule has both: whether nids count up, and the digits of the name; None: none has.

    Args:
        after: of a higher number.
    """
    if after.node != before.node + 1:
        return None
    counts_nid = (after.nid, after.pid) == (before.nid + 1, before.pid)
    if not counts_nid and (after.nid, after.pid) != (before.nid, before.pid + 1):
        return None
    digits = counted(before.name, after.name)
    return None if digits < 0 else (counts_nid, digits)


def rule_of(node: int, count: int, first: GrantedNode, step: tuple[bool, int] | None) -> NodeRule:
    """The rule of consecutive nodes that follow one another by this step; None: of one node."""
    counts_nid, digits = step or (False, 0)
    return NodeRule(node, count, first.name, digits, first.nid, first.pid, counts_nid)


def demand_ascending(what: str, ranges: Iterable[tuple[int, int]]) -> None:
    """Refuse ranges, each a first number and a count, that do not follow one another.

    Raises:
        ValueError: they do not, or end above NODE_MAX.
    """
    behind = 0
    for first, count in ranges:
        if first < behind:
            raise ValueError(f"{what} contradict: one is there twice")
        behind = first + count
    if behind > NODE_MAX + 1:
        raise ValueError(f"{what} contradict the limit of {NODE_MAX}")


class OfNodes(JobMessage, frozen=True):
    """Base of what is said of some nodes of a job. They are the second field."""

    ranges: NumberRanges

    def __post_init__(self) -> None:
        demand_ascending("nodes", self.ranges)

    @classmethod
    def of(cls, job_id: int, nodes: Iterable[int]) -> Self:
        """The message about these nodes."""
        return cls(job_id, ranges_of(nodes))

    @property
    def nodes(self) -> tuple[int, ...]:
        """Their numbers, ascending."""
        return numbers_in(self.ranges)


def demand_fitting(nodes: JobNodes, runs: JobRuns) -> None:
    """Refuse runs that are elsewhere than on these nodes.

    Raises:
        ValueError: they are.
    """
    if (place := runs.end - 1) >= len(nodes):
        raise ValueError(f"place {place} contradicts {len(nodes)} nodes")
