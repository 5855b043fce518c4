"""Placement over arrays: for partitions of thousands of nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from allocator.nodes import leaves
from allocator.nodes.access import OPEN, Access, Claim, Least
from allocator.nodes.node import Node
from allocator.nodes.policies import Ints, Policy, lowest
from native.wire.alloc import Share
from native.wire.placed import NodeSpan

Bools = npt.NDArray[np.bool_]
K = TypeVar("K")
V = TypeVar("V")

_CHUNK_COUNT = 1024  # places that are looked at together
_CLAIMS_COUNT = 64  # of which it is remembered which nodes they may have, or may not


class Filled(NamedTuple):
    """The slots that are taken of each of some nodes, in the order of the line.

    Attributes:
        nodes: shape (n,), numbers, each once.
        slots: shape (n,), at least 1 each.
    """

    nodes: Ints
    slots: Ints

    def spans(self) -> list[NodeSpan]:
        """The same, as few spans as can be."""
        nodes, slots = self
        apart = np.flatnonzero((np.diff(nodes) != 1) | (np.diff(slots) != 0)) + 1
        bounds = np.concatenate(([0], apart, [len(nodes)]))
        counts = np.diff(bounds)
        columns = (nodes[bounds[:-1]].tolist(), counts.tolist(), slots[bounds[:-1]].tolist())
        return [NodeSpan(*span) for span in zip(*columns, strict=True)]


class ArrayPlacement:
    """Chooses slots by a policy, on nodes that lie in a line.

    Attributes:
        least, switches: as in :class:`allocator.nodes.table.Placement`.

    Args:
        policy: which slots a request gets that names no nodes.
        line: the nodes in their order, each once; others follow them, by number.
        leaf_of: the leaf switch of each node of the line, from 0 on; others are below one more.
            Empty: all nodes are below one.
    """

    def __init__(
        self, policy: Policy = lowest, line: Sequence[int] = (), leaf_of: Sequence[int] = ()
    ) -> None:
        self._policy = policy
        self.least: tuple[Least, ...] = ()
        self.switches = 0
        self.supply: Callable[[Node], Share] | None = None
        self._listed = np.array(line, dtype=np.int64)
        self._line: Ints | None = None  # by place; None: to be made again
        self._places = self._listed  # by node number; only where there is such a line
        size = max(64, int(self._listed.max(initial=0)) + 1)
        self._free = np.zeros(size, dtype=np.int64)  # by node number
        self._leaves_count = max(leaf_of, default=-1) + 2
        self._leaf = np.full(size, self._leaves_count - 1, dtype=np.int64)  # by node number
        if leaf_of:
            self._leaf[self._listed] = leaf_of
        self._has_leaves = bool(leaf_of)
        self._is_unused = np.zeros(size, dtype=np.bool_)
        self._kept: dict[int, Access] = {}  # nodes that not everybody may have
        self._shut: dict[Claim, Ints] = {}  # those that a claim may not have; remembered
        self._sets: dict[tuple[frozenset[int], int], Bools] = {}  # features, queues; likewise

    def follow(self, policy: Policy) -> None:
        """Go by this policy from now on."""
        self._policy = policy

    def take(self, spans: Sequence[NodeSpan]) -> None:
        """As many slots of each of these nodes are free no more."""
        single = [(span.node, span.slots) for span in spans if span.count == 1]
        if single:
            nodes, slots = np.array(single, dtype=np.int64).T
            np.subtract.at(self._free, nodes, slots)  # one may be there twice: ranks are dealt
            self._is_unused[nodes] = False
        for span in spans if len(single) < len(spans) else ():
            if span.count > 1:
                self._free[span.node : span.node + span.count] -= span.slots
                self._is_unused[span.node : span.node + span.count] = False

    def set_free(self, node: int, count: int, is_unused: bool = False) -> None:
        """Set the count of a node's free slots."""
        self._grow(node)
        self._free[node] = count
        self._is_unused[node] = is_unused

    def set_access(self, node: int, access: Access) -> None:
        """Set whose jobs may be given a node."""
        self._grow(node)
        if self._kept.get(node, OPEN) == access:
            return
        self._shut.clear()
        self._kept.pop(node, None)
        if access != OPEN:
            self._kept[node] = access

    def free(self, node: int) -> int:
        """The count of a node's free slots."""
        return int(self._free[node]) if node < len(self._free) else 0

    @property
    def has_leaves(self) -> bool:
        """It is known below which leaf switches the nodes are."""
        return self._has_leaves

    @property
    def fills_lowest(self) -> bool:
        """Its policy takes the first free slots of the line."""
        return self._policy is lowest

    @property
    def is_anyones(self) -> bool:
        """No node is kept for some users, or for some kinds of jobs."""
        return not self._kept

    def admitting(self, claim: Claim) -> ArrayPlacement:
        """The same, with free slots on those nodes only that this claim may have."""
        if claim.switches and self._has_leaves:
            other = self._with(self._free)
            other.switches = claim.switches
            return other.admitting(replace(claim, switches=0))
        if claim.without:
            other = self._with(self._less(claim.without))
            return other.admitting(replace(claim, without=frozenset()))
        if claim.nodes or claim.least:
            other = self._among(claim.nodes) if claim.nodes else self.copy()
            other.least = claim.least
            return other.admitting(
                replace(claim, nodes=frozenset(), one_of=(), constraint="", least=())
            )
        if not self._kept:
            return self
        if not len(shut := self._shut_to(claim)):
            return self
        free = self._free.copy()
        free[shut] = 0
        return self._with(free)

    def _less(self, nodes: frozenset[int]) -> Ints:
        """The free slots by node number, none on these nodes."""
        return self._free * ~self._is_in(nodes)

    def _among(self, nodes: frozenset[int]) -> ArrayPlacement:
        """The same, with free slots on these nodes only."""
        return self._with(self._free * self._is_in(nodes))

    def _is_in(self, nodes: frozenset[int]) -> Bools:
        """Which nodes are of a set, by number; not to be changed."""

        def found() -> Bools:
            size = len(self._free)
            is_in = np.zeros(size, dtype=np.bool_)
            is_in[[number for number in nodes if number < size]] = True
            return is_in

        return _remembered(self._sets, (nodes, len(self._free)), found)

    def _shut_to(self, claim: Claim) -> Ints:
        """The nodes that are kept for others.

        Args:
            claim: that asks for no more than to be whose it is.
        """
        kept = self._kept.items()

        def found() -> Ints:
            shut = [node for node, access in kept if not claim.may_have(access)]
            return np.array(shut, dtype=np.int64)

        return _remembered(self._shut, claim, found)

    def admitted(self, claim: Claim, nodes: Ints) -> Ints:
        """Those of some nodes that this claim may have, in the order of the line.

        Args:
            claim: that asks neither for few switches nor for counts.
            nodes: shape (n,), numbers, ascending.
        """
        if claim.without:
            nodes = nodes[~self._is_in(claim.without)[nodes]]
        if claim.nodes:
            nodes = nodes[self._is_in(claim.nodes)[nodes]]
        if self._kept and len(shut := self._shut_to(Claim(claim.uid, claim.is_batch))):
            is_shut = np.zeros(len(self._free), dtype=np.bool_)
            is_shut[shut] = True
            nodes = nodes[~is_shut[nodes]]
        if len(self._listed):
            self._lay()
            nodes = nodes[np.argsort(self._places[nodes])]
        return nodes

    def copy(self) -> ArrayPlacement:
        """The same; what is taken from it stays in this one."""
        return self._with(self._free.copy())

    def unused(self) -> ArrayPlacement:
        """The same, with free slots on those nodes only of which no job has any."""
        return self._with(self._free * self._is_unused)

    def free_slots(self) -> Ints:
        """The free slots by node number; the caller's own."""
        return self._free.copy()

    def with_free(self, free: Ints) -> ArrayPlacement:
        """The same, with other free slots: those of another time. It is not kept up to date."""
        return self._with(free)

    def in_order(self) -> Iterator[int]:
        """Nodes with a free slot, in the order of the line."""
        free = self._free_in_line()
        for first in range(0, len(free), _CHUNK_COUNT):  # most requests need the first few
            places = np.flatnonzero(free[first : first + _CHUNK_COUNT]) + first
            yield from self._nodes_at(places).tolist()

    def anywhere(self, size: int) -> list[NodeSpan] | None:
        """The slots that the policy chooses; None: too few."""
        free = self._free_in_line()
        if int(free.sum()) < size:
            return None
        return self._fill(self._nodes_at(self._policy(free, size)), size)

    def filled(self, size: int) -> list[NodeSpan] | None:
        """The first free slots in the order of the line, whatever the policy; None: too few."""
        places = np.flatnonzero(self._free_in_line() > 0)
        return self._fill(self._nodes_at(places), size)

    def nodes_with(self, slots: int, count: int) -> list[int] | None:
        """So many nodes with as many free slots each, by the policy; None: too few."""
        able = (self._free_in_line() >= slots).astype(np.int64)
        if int(able.sum()) < count:
            return None
        places = self._policy(able, count)[:count]
        chosen: list[int] = self._nodes_at(places).tolist()
        return chosen

    @property
    def leaf(self) -> Ints:
        """The leaf switch of each node, by number; not to be changed."""
        return self._leaf

    def free_below(self) -> Ints:
        """The free slots below each leaf switch."""
        return self.below_each(self._free)

    def below_each(self, counts: Ints) -> Ints:
        """The sum of these counts, by node number, below each leaf switch."""
        sums = np.bincount(self._leaf[: len(counts)], counts, self._leaves_count)
        return sums.astype(np.int64)

    def below(self, leaves: Ints) -> ArrayPlacement:
        """The same, with free slots below these leaf switches only; of how many is not asked."""
        is_below = np.zeros(self._leaves_count, dtype=np.bool_)
        is_below[leaves] = True
        return self.below_any(np.where(is_below[self._leaf], self._free, 0))

    def could_be_below(self, slots: int) -> bool:
        """Whether there are so many free slots below as few leaf switches as it says."""
        return leaves.could(self, slots)

    def leaves_of(self, numbers: Collection[int]) -> int:
        """Below how many leaf switches these nodes are."""
        return leaves.count_of(self, numbers)

    def below_few(
        self, room: Mapping[int, int] | None, wanted: int, node_count: int
    ) -> Iterator[ArrayPlacement]:
        """The free slots below few leaf switches; see :func:`allocator.nodes.leaves.choices`."""
        return leaves.choices(self, room, wanted, node_count)

    def below_any(self, free: Ints | None = None) -> ArrayPlacement:
        """The same, whatever switches the nodes are below, also with other free slots."""
        other = self._with(self._free if free is None else free)
        other.switches = 0
        return other

    def of_list(self, nodes: tuple[int, ...], size: int) -> list[NodeSpan] | None:
        """The first free slots of a list, in its order; None: too few."""
        listed = np.array([node for node in nodes if node < len(self._free)], dtype=np.int64)
        return self._fill(listed[self._free[listed] > 0], size)

    def _with(self, free: Ints) -> ArrayPlacement:
        """The same line and policy, with other free slots. It is not kept up to date."""
        other = ArrayPlacement.__new__(ArrayPlacement)
        other.__dict__.update(self.__dict__)
        other._free, other._is_unused = free, self._is_unused.copy()
        return other

    def _grow(self, node: int) -> None:
        if node < len(self._free):
            return
        size = len(self._free)
        more = max(node + 1, size + size // 8 + 64) - size  # what is too long costs all that look
        self._free = np.pad(self._free, (0, more))
        self._is_unused = np.pad(self._is_unused, (0, more))
        self._leaf = np.pad(self._leaf, (0, more), constant_values=self._leaves_count - 1)
        self._line = None

    def _free_in_line(self) -> Ints:
        """The free slots of each place."""
        if not len(self._listed):
            return self._free
        return self._free[self._lay()]

    def _lay(self) -> Ints:
        """The nodes by place; of a line that is listed."""
        if self._line is None:
            rest = np.setdiff1d(np.arange(len(self._free)), self._listed)
            self._line = np.concatenate((self._listed, rest))
            self._places = np.argsort(self._line)
        return self._line

    def _nodes_at(self, places: Ints) -> Ints:
        return places if self._line is None else self._line[places]

    def _fill(self, nodes: Ints, size: int) -> list[NodeSpan] | None:
        """Fill nodes that have something free, in their order.

        Args:
            nodes: shape (n,), numbers, each once.
            size: slots wanted, at least 1.
        """
        filled = fill(nodes, self._free[nodes], size)
        return None if filled is None else filled.spans()


def fill(nodes: Ints, free: Ints, size: int) -> Filled | None:
    """Fill nodes in their order; None: they have too little.

    Args:
        nodes: shape (n,), numbers, each once.
        free: shape (n,), what they have free, at least 1 each; it may be changed.
        size: slots wanted, at least 1.
    """
    upto = np.cumsum(free, dtype=np.int64)  # slots on this node and those before
    last = int(np.searchsorted(upto, size))
    if last == len(nodes):
        return None
    slots = free[: last + 1]
    slots[-1] -= int(upto[last]) - size
    return Filled(nodes[: last + 1], slots)


def _remembered(known: dict[K, V], key: K, find: Callable[[], V]) -> V:
    """What is found once for a key."""
    if (value := known.get(key)) is None:
        if len(known) >= _CLAIMS_COUNT:
            known.clear()
        value = known[key] = find()
    return value
