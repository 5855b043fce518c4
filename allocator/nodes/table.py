"""The partition's table: which node is there, and what is held of it.

A node exists because its PCT has announced itself; it stays in the table when it
is down, with everything that is held there, until it is heard from again. Its
number is the one the PCT was given, else the one the nodes file or an earlier
announcement gave its name, else the lowest that nobody has.

Pure: no clock, no transport.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Protocol

from msgspec import Struct, field

from native.ids import PortalId
from native.wire.status import Announce


class Placement(Protocol):
    """Where ranks go. It keeps its own count of free slots, told by the table.

    Every method that answers with nodes gives pairs (node, slots), takes nothing,
    and gives None when there is too little.
    """

    def set_free(self, node: int, count: int) -> None:
        """A node has so many slots to give; 0 too for one that is down."""

    def free(self, node: int) -> int:
        """What it was last told of a node; 0: nothing."""

    def anywhere(self, size: int) -> list[tuple[int, int]] | None:
        """Slots for ``size`` ranks on any nodes."""

    def of_list(self, nodes: tuple[int, ...], size: int) -> list[tuple[int, int]] | None:
        """Slots for ``size`` ranks on these nodes, filled in their order."""


class Node(Struct):
    """One node.

    Attributes:
        address: where its PCT listens; grants carry it.
        peer: whom its messages come from.
        heard_at: seconds, when it last said anything.
        held: slots by job.
        over: jobs of earlier bebopds that have ended here; a late announcement
            that still names one says nothing new.
    """

    number: int
    name: str
    slots: int
    address: PortalId
    peer: PortalId
    incarnation: int
    heard_at: float
    is_up: bool = True
    down_text: str = ""
    held: dict[int, int] = field(default_factory=dict)
    over: set[int] = field(default_factory=set)

    def used(self) -> int:
        """Slots held by jobs."""
        return sum(self.held.values())

    def free(self) -> int:
        """Slots that can be given now."""
        # Less than nothing when a PCT came back with fewer slots than are held.
        return max(0, self.slots - self.used()) if self.is_up else 0

    def __str__(self) -> str:
        return f"node {self.number} ({self.name})"


class Arrival(Enum):
    """What an announcement means."""

    FIRST = "first"  # a node that was not in the table
    STILL_HERE = "still here"
    BACK = "back"  # the same PCT; it was down
    RESTARTED = "restarted"  # another PCT: what ran under the earlier one is gone


class NodeConflictError(Exception):
    """An announcement that contradicts the table; the text is for its PCT."""


class NodeTable:
    """All nodes by number."""

    def __init__(
        self, placement: Placement, fixed: Mapping[str, int], remembered: Mapping[str, int]
    ) -> None:
        """Begin without nodes.

        Args:
            placement: is told of every change of what is free.
            fixed: number by name, from the nodes file.
            remembered: number by name, from an earlier bebopd.
        """
        self._placement = placement
        self._fixed = dict(fixed)
        self._name_of = {number: name for name, number in fixed.items()}
        self._numbers = {**remembered, **fixed}
        self._nodes: dict[int, Node] = {}
        self._by_peer: dict[PortalId, Node] = {}

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
        return self._by_peer.get(peer)

    def slots(self) -> int:
        """Slots of all nodes, those of nodes that are down included."""
        return sum(node.slots for node in self._nodes.values())

    def up_count(self) -> int:
        """Nodes that are not down."""
        return sum(node.is_up for node in self._nodes.values())

    def admit(self, announce: Announce, peer: PortalId, now: float) -> tuple[Node, Arrival]:
        """Take in an announcement.

        Raises:
            NodeConflictError: its number or name is another's; nothing has changed.
        """
        number = self._number(announce)
        node = self._nodes.get(number)
        if node is None:
            node = self._nodes[number] = _new(number, announce, peer, now)
            arrival = Arrival.FIRST
        else:
            arrival = self._again(node, announce, peer, now)
            self._update(node, announce, peer, now)
        self._by_peer[peer] = node
        self._numbers[announce.name] = number
        self.refresh(node)
        return node, arrival

    def mark_down(self, node: Node, text: str) -> None:
        """A node is out of reach; what is held there stays held."""
        node.is_up, node.down_text = False, text
        self.refresh(node)

    def hold(self, node: Node, job_id: int, slots: int) -> None:
        """Give slots to a job."""
        node.held[job_id] = slots
        self.refresh(node)

    def free(self, node: Node, job_id: int) -> None:
        """Take back all slots of a job."""
        del node.held[job_id]
        self.refresh(node)

    def refresh(self, node: Node) -> None:
        """Tell the placement what is free on a node."""
        self._placement.set_free(node.number, node.free())

    def check(self) -> None:
        """Assert what must always hold."""
        for number, node in self._nodes.items():
            assert node.number == number
            assert all(slots >= 1 for slots in node.held.values()), node
        for peer, node in self._by_peer.items():
            assert node.peer == peer and self._nodes[node.number] is node

    def _number(self, announce: Announce) -> int:
        name, number = announce.name, announce.node
        if number < 0:
            number = self._numbers[name] if name in self._numbers else self._lowest()
        elif self._fixed.get(name, number) != number:
            raise NodeConflictError(
                f"{name} is node {self._fixed[name]} by the nodes file,"
                f" and announced itself as node {number}"
            )
        if self._name_of.get(number, name) != name:
            raise NodeConflictError(
                f"node {number} is {self._name_of[number]} by the nodes file, not {name}"
            )
        return number

    def _lowest(self) -> int:
        taken = set(self._numbers.values()) | self._nodes.keys()
        return next(number for number in range(len(taken) + 1) if number not in taken)

    def _again(self, node: Node, announce: Announce, peer: PortalId, now: float) -> Arrival:
        if node.incarnation == announce.incarnation:
            return Arrival.STILL_HERE if node.is_up else Arrival.BACK
        # Who announces from the same address has taken it over: the other is dead.
        if node.is_up and peer != node.peer:
            raise NodeConflictError(
                f"{node} is there already, at {node.address} (heard from"
                f" {now - node.heard_at:.0f} s ago); give this one its own --node and --name"
            )
        return Arrival.RESTARTED

    def _update(self, node: Node, announce: Announce, peer: PortalId, now: float) -> None:
        if self._by_peer.get(node.peer) is node:
            del self._by_peer[node.peer]
        node.name, node.slots, node.peer = announce.name, announce.slots, peer
        node.address = PortalId(announce.nid, announce.pid)
        node.incarnation, node.heard_at = announce.incarnation, now
        node.is_up, node.down_text = True, ""


def _new(number: int, announce: Announce, peer: PortalId, now: float) -> Node:
    return Node(
        number=number,
        name=announce.name,
        slots=announce.slots,
        address=PortalId(announce.nid, announce.pid),
        peer=peer,
        incarnation=announce.incarnation,
        heard_at=now,
    )
