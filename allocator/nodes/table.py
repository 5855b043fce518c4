"""The nodes of the partition, and the slots that jobs hold on each.

A node is in the table from the first announcement of its PCT. A node that is down stays
in the table, and its slots stay held, until bebopd hears from it again. A node's number
is the one that its PCT was started with, else the one that the nodes file or an earlier
announcement gave to its name, else the lowest that is not in use.

Pure: no clock, no transport.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

from allocator.lending.loans import NO_LOANS, Loans, check, without
from allocator.nodes.access import Access, Claim, Least
from allocator.nodes.bookings import Booking, ordered
from allocator.nodes.featured import Featured
from allocator.nodes.node import (
    NOT_COUNTED,
    NOTHING,
    Arrival,
    Node,
    NodeConflictError,
    equipment,
    new_node,
    packed,
    places,
    says_the_same,
)
from allocator.nodes.numbers import Numbers
from allocator.nodes.orders import NONE, Orders
from allocator.nodes.rules import Rules
from native.ids import PortalId
from native.wire.alloc import NO_SHARE, NodeShare, Share
from native.wire.placed import JobNodes, NodeSpan
from native.wire.status import Announce, Portion


class Placement(Protocol):
    """Chooses nodes. It has its own count of free slots, which the table keeps up to date.

    A method that chooses nodes returns None when too few slots are free. It holds no slot.

    Attributes:
        least: how many of the nodes are to be of which sets; whoever chooses slots sees to it.
        switches: likewise, below how many leaf switches they are at most; 0: below any.
        supply: what may be used of a node beside slots; None: what no job has.
    """

    least: tuple[Least, ...]
    switches: int
    supply: Callable[[Node], Share] | None

    def set_free(self, node: int, count: int, is_unused: bool = False) -> None:
        """Set the count of a node's free slots; 0 for one that is down or drained.

        Args:
            is_unused: no job has any slot of it.
        """

    def set_access(self, node: int, access: Access) -> None:
        """Set whose jobs may be given a node."""

    def admitting(self, claim: Claim) -> Placement:
        """The same, with free slots on those nodes only that this claim may have.

        Like those of the next two, it is not kept up to date.
        """

    def copy(self) -> Placement:
        """The same; what is taken from it stays in this one."""

    def unused(self) -> Placement:
        """The same, with free slots on those nodes only of which no job has any."""

    def in_order(self) -> Iterator[int]:
        """Nodes with a free slot, in the order in which they are given."""

    def nodes_with(self, slots: int, count: int) -> list[int] | None:
        """So many nodes with as many free slots each."""

    def take(self, spans: Sequence[NodeSpan]) -> None:
        """As many slots of each of these nodes, which it has chosen, are free no more."""

    def free(self, node: int) -> int:
        """The count of a node's free slots; 0 for an unknown node."""

    def anywhere(self, size: int) -> list[NodeSpan] | None:
        """Slots for ``size`` ranks on any nodes."""

    def of_list(self, nodes: tuple[int, ...], size: int) -> list[NodeSpan] | None:
        """Slots for ``size`` ranks on these nodes, filled in their order."""


class NodeTable:
    """All nodes by number.

    Attributes:
        changes, described, named: of free slots, counted; of what nodes have beside these, and of
            their names, likewise.
        most_slots: that a node had, or jobs on it.
        empty: a placement in which all slots are free; None: to be made.
        closed: nodes of which no slot is given.
        exclusive: nodes that one job at a time has, whole.
        featured: their features.
        lending: nodes on which jobs have slots of others.
        to_restart: nodes with an order to restart of which something has changed since
            somebody has taken them out.
    """

    def __init__(
        self,
        placement: Placement,
        fixed: Mapping[str, int],
        remembered: Mapping[str, int],
        orders: Mapping[int, Orders],
        portions: Mapping[int, Portion],
        exclusive: Collection[int] = (),
    ) -> None:
        """Begin without nodes.

        Args:
            placement: gets every change of a node's free slots.
            fixed: number by name, from the nodes file.
            remembered: number by name, from an earlier bebopd.
            orders: what operators have ordered for nodes, likewise.
            portions: which jobs nodes are for, from the nodes file.
            exclusive: nodes that one job at a time has, likewise.
        """
        self.to_restart: set[int] = set()
        self.closed: set[int] = set()
        self.lending: set[int] = set()
        self._orders = dict(orders)
        self._bookings: tuple[Booking, ...] | None = None  # None: to be found
        self._placement = placement
        self.exclusive = frozenset(exclusive)
        self._portions = dict(portions)
        self._nodes: dict[int, Node] = {}
        self._by_peer: dict[int, Node] = {}  # by Node.peer_at
        self._numbers = Numbers(fixed, remembered, self._nodes)
        self._slots = self.most_slots = 0
        self._up_count = 0
        self._rules = Rules(self._nodes)
        self.changes = self.described = self.named = 0
        self.empty: Placement | None = None
        self.featured = Featured()

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        """All nodes by ascending number."""
        return (self._nodes[number] for number in sorted(self._nodes))

    def get(self, number: int) -> Node | None:
        """A node by its number."""
        return self._nodes.get(number)

    def of_peer(self, peer: PortalId) -> Node | None:
        """The node whose PCT this is."""
        return self._by_peer.get(packed(peer))

    def orders(self, number: int) -> Orders:
        """What operators have ordered for a node, also for one that is not in the table."""
        return self._orders.get(number, NONE)

    def order(self, number: int, orders: Orders) -> None:
        """Go by these orders from now on."""
        if orders == NONE:
            self._orders.pop(number, None)
        else:
            self._orders[number] = orders
        self._bookings = None
        self.changes += 1  # others may have what is free
        self.empty = None
        if (node := self._nodes.get(number)) is not None:
            node.orders = orders
            self._placement.set_access(number, node.access)
            self.refresh(node)

    @property
    def bookings(self) -> tuple[Booking, ...]:
        """What operators have ordered to be kept for some users for a time."""
        if self._bookings is None:
            self._bookings = ordered(self._orders)
        return self._bookings

    @property
    def features(self) -> Mapping[str, frozenset[int]]:
        """The nodes that have each: those of the nodes file, which are set, and announced ones."""
        return self.featured.all()

    @features.setter
    def features(self, named: Mapping[str, frozenset[int]]) -> None:
        self.featured.name(named)

    @property
    def has_exclusive(self) -> bool:
        """One job at a time has some of the nodes."""
        return bool(self.exclusive)

    def portion(self, number: int) -> Portion:
        """Which jobs a node is for, by the nodes file."""
        return self._portions.get(number, Portion.ANY)

    def is_known(self, number: int) -> bool:
        """Whether it is in the table, in the nodes file, or has an order."""
        return number in self._nodes or self._numbers.is_fixed(number) or number in self._orders

    def absent(self) -> list[tuple[int, str, Orders]]:
        """Number, name and orders of nodes that have orders and are not in the table."""
        numbers = sorted(self._orders.keys() - self._nodes.keys())
        names = self._numbers.names() if numbers else {}
        return [(number, names.get(number, ""), self._orders[number]) for number in numbers]

    def name_of(self, number: int) -> str:
        """The name of a node that may not be in the table; empty: not known."""
        return self._numbers.name_of(number)

    def names(self) -> dict[int, str]:
        """Name by number, also of nodes that are not in the table."""
        return self._numbers.names() | {node.number: node.name for node in self}

    def silent(self, since: float) -> list[Node]:
        """Nodes that are up and have not been heard from after this."""
        return [node for node in self if node.is_up and node.heard_at <= since]

    def earliest(self) -> float | None:
        """When the node that is up and silent for longest was heard from; None: none is up."""
        return min((node.heard_at for node in self if node.is_up), default=None)

    def slots(self) -> int:
        """Slots of all nodes, those of nodes that are down included."""
        return self._slots

    def up_count(self) -> int:
        """Nodes that are not down."""
        return self._up_count

    def admit(self, announce: Announce, peer: PortalId, now: float) -> tuple[Node, Arrival]:
        """Take in an announcement.

        Raises:
            NodeConflictError: another node has its number or name; nothing has changed.
        """
        number = self._numbers.wanted(announce.name, announce.node)
        node = self._nodes.get(number)
        if (
            node is not None
            and self.featured.has(number, announce.features)
            and says_the_same(node, announce, peer)
        ):  # which most do, always
            node.heard_at = now
            return node, Arrival.STILL_HERE
        if node is None:
            node = self._nodes[number] = new_node(number, announce, peer, now, self.orders(number))
            arrival, before, slots = Arrival.FIRST, None, 0
            self.described += 1
            node.portion, node.is_exclusive = self.portion(number), number in self.exclusive
            self._placement.set_access(number, node.access)
        else:
            arrival = self._again(node, announce, peer, now)
            before, slots = (node.name, node.at), node.slots
            self._slots -= slots
            self._up_count -= node.is_up
            self._update(node, announce, peer, now)
        if node.slots != slots:
            self.empty = None
        self._slots += node.slots
        self.most_slots = max(self.most_slots, node.slots)
        self._up_count += 1
        self._by_peer[node.peer_at] = node
        self._numbers.give(announce.name, number)
        self.named += before is None or before[0] != node.name
        self.featured.tell(number, announce.features)
        if before != (node.name, node.at):
            self._rules.changed(number)
        self.refresh(node)
        return node, arrival

    def mark_down(self, node: Node, text: str) -> None:
        """A node is out of reach; its slots stay held."""
        self._up_count -= node.is_up
        node.is_up = False
        node.note(down_text=text)
        self.refresh(node)

    def placed(self, spans: Sequence[NodeSpan]) -> JobNodes:
        """These nodes with names and addresses, for a job."""
        return self._rules.of(tuple(spans))

    def hold(self, node: Node, job_id: int, slots: int, share: Share = NO_SHARE) -> None:
        """Give slots to a job, and a share of what is counted beside them."""
        node.held = {**node.held, job_id: slots}
        self.most_slots = max(self.most_slots, sum(node.held.values()))
        if share != NO_SHARE:
            node.given = {**node.given, job_id: share}
        self.refresh(node)

    def hold_all(self, spans: Sequence[NodeSpan], job_id: int, overlaps: bool) -> None:
        """Give slots that the placement has chosen to a job.

        Args:
            overlaps: it takes none, and runs on those that others have.
        """
        if not overlaps:
            self._placement.take(spans)
        nodes, shared = self._nodes, dict[int, dict[int, int]]()  # by slots
        for span in spans:
            slots = 0 if overlaps else span.slots
            if (only := shared.get(slots)) is None:
                only = shared[slots] = {job_id: slots}
            for number in range(span.node, span.node + span.count):
                node = nodes[number]
                node.held = {**node.held, **only} if node.held else only
        for number in self.exclusive if not overlaps else ():
            if (taken := nodes.get(number)) is not None and job_id in taken.held:
                self.refresh(taken)  # what is left is for nobody else
        self.changes += len(spans)
        restarts = [n for n, orders in self._orders.items() if orders.restart is not None]
        self.to_restart.update(n for n in restarts if n in nodes and job_id in nodes[n].held)

    def set_loans(self, number: int, loans: Loans) -> None:
        """Note which slots of a node some jobs have from others."""
        node = self._nodes[number]
        node.loans = loans or NO_LOANS
        (self.lending.add if loans else self.lending.discard)(node.number)
        self.refresh(node)

    def give(self, shares: Sequence[NodeShare], job_id: int) -> None:
        """Give memory, GPUs and cores to a job that holds slots of these nodes."""
        for each in shares:
            share = each.share
            for number in range(each.node, each.node + each.count):
                node = self._nodes[number]
                node.given = {**node.given, job_id: share}

    def free(self, node: Node, job_id: int) -> None:
        """Take back all slots of a job, and what it has beside them."""
        left = dict(node.held)
        del left[job_id]
        node.held = left or NOTHING
        if node.loans:
            self.set_loans(node.number, without(node.loans, job_id))
        if job_id in node.given:
            given = dict(node.given)
            del given[job_id]
            node.given = given or NOT_COUNTED
        self.refresh(node)

    def fix(
        self,
        fixed: Mapping[str, int],
        portions: Mapping[int, Portion],
        exclusive: Collection[int] = (),
    ) -> None:
        """Take a nodes file that has changed.

        Raises:
            NodeConflictError: it gives a node that is there another number, or its number to
                another one. Nothing has changed.
        """
        for name, number in fixed.items():
            node = self._nodes.get(number)
            if node is not None and node.name != name:
                raise NodeConflictError(f"node {number} is {node.name}, not {name}")
        for node in self._nodes.values():
            if fixed.get(node.name, node.number) != node.number:
                raise NodeConflictError(
                    f"{node.name} is node {node.number}, not {fixed[node.name]}"
                )
        self._numbers.fix(fixed)
        self._portions, self.exclusive = dict(portions), frozenset(exclusive)
        self.empty = None
        for node in self:
            number = node.number
            node.portion, node.is_exclusive = self.portion(number), number in self.exclusive
            self._placement.set_access(node.number, node.access)
            self.refresh(node)

    def refresh(self, node: Node) -> None:
        """Tell the placement what is free on a node."""
        self._placement.set_free(node.number, node.free(), not node.used())
        self.changes += 1
        if node.is_open:
            self.closed.discard(node.number)
        else:
            self.closed.add(node.number)
        if node.orders.restart is not None:
            self.to_restart.add(node.number)

    def check(self) -> None:
        """Assert what must always hold."""
        for number, node in self._nodes.items():
            assert node.number == number
            assert all(slots >= 0 for slots in node.held.values()), node
            assert node.orders == self.orders(number), node
            assert node.given.keys() <= node.held.keys() >= node.loans.keys(), node
            assert bool(node.loans) == (number in self.lending), node
            check(node.loans, node.held)
            assert node.is_open == (number not in self.closed), node
        assert self._slots == sum(node.slots for node in self._nodes.values())
        assert self._up_count == sum(node.is_up for node in self._nodes.values())
        self._numbers.check()
        self._rules.check()
        for peer, node in self._by_peer.items():
            assert node.peer_at == peer and self._nodes[node.number] is node

    def _again(self, node: Node, announce: Announce, peer: PortalId, now: float) -> Arrival:
        if node.incarnation == announce.incarnation:
            return Arrival.STILL_HERE if node.is_up else Arrival.BACK
        # A PCT that announces from the same address replaces the earlier one, which is dead.
        # A new PCT also replaces one that was told to restart and whose end we have not noticed.
        restart = node.orders.restart
        is_told = restart is not None and (restart.is_forced or not node.held)
        if node.is_up and peer != node.peer and not is_told:
            raise NodeConflictError(
                f"{node} is there already, at {node.address} (heard from"
                f" {now - node.heard_at:.0f} s ago); give this one its own --node and --name"
            )
        return Arrival.RESTARTED

    def _update(self, node: Node, announce: Announce, peer: PortalId, now: float) -> None:
        if self._by_peer.get(node.peer_at) is node:
            del self._by_peer[node.peer_at]
        node.name, node.slots, node.at = announce.name, announce.slots, places(announce, peer)
        node.incarnation, node.heard_at, node.is_up = announce.incarnation, now, True
        node.note(down_text="", trouble=announce.trouble, rogues=announce.rogues)
        before, node.equipment = node.equipment, equipment(announce)
        self.described += (before.memory, before.gpus) != (announce.memory, announce.gpus)
