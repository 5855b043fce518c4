"""One node of a partition, as bebopd knows it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from allocator.lending.loans import NO_LOANS, Loans, lent
from allocator.nodes.access import OPEN, Access, Claim
from allocator.nodes.orders import NONE, Orders, RecordNode, RecordNodeEvent
from native.ids import PortalId
from native.machine import Action, Log
from native.text import shown
from native.wire.alloc import Share
from native.wire.base import clipped
from native.wire.nodes import NodeEventKind
from native.wire.runs import CoreGroup
from native.wire.status import Announce, Portion

NOTHING: Mapping[int, int] = MappingProxyType({})  # what a free node holds
NOT_COUNTED: Mapping[int, Share] = MappingProxyType({})


class NodeConflictError(Exception):
    """An announcement that contradicts the table; the text is for its PCT."""


class Equipment(Struct, frozen=True, gc=False):
    """What a node has beside slots. Nodes that are alike share one.

    Attributes:
        gpus: the kind of each.
        cores: that ranks can be bound to.
    """

    memory: int = 0
    gpus: tuple[str, ...] = ()
    cores: tuple[CoreGroup, ...] = ()


class Notes(Struct, frozen=True, gc=False):
    """What there is to say of few nodes; all others share one that says nothing.

    Attributes:
        down_text: why it is down.
        over: jobs of earlier bebopds that have ended here, with their attempts; a late
            announcement may still name one, and is not believed.
        trouble: why its PCT finds it not fit for jobs; empty: it is.
        rogues: processes there that its batch system does not end; empty: there are none.
    """

    down_text: str = ""
    over: frozenset[tuple[int, int]] = frozenset()
    trouble: str = ""
    rogues: str = ""


NO_EQUIPMENT, NO_NOTES = Equipment(), Notes()


class Node(Struct, gc=False):  # of no cycle; there may be very many
    """One node.

    Attributes:
        at: where its PCT listens, and where that PCT's messages come from, both as numbers
            (:func:`packed`); one number where they are the same, as for most.
        heard_at: seconds, monotonic, of its last message.
        held: slots by job. Nodes share it: it is replaced, not changed.
        portion: which jobs it is for, by the nodes file.
        is_exclusive: it is given to one job at a time, as a whole.
        given: memory, GPUs and cores by job; of jobs that have asked for none there is nothing.
        loans: by the job that has slots of others, which stand still; of both they count once.
    """

    number: int
    name: str
    slots: int
    at: int | tuple[int, int]
    incarnation: int
    heard_at: float
    is_up: bool = True
    held: Mapping[int, int] = NOTHING
    orders: Orders = NONE
    equipment: Equipment = NO_EQUIPMENT
    given: Mapping[int, Share] = NOT_COUNTED
    loans: Loans = NO_LOANS
    notes: Notes = NO_NOTES
    portion: Portion = Portion.ANY
    is_exclusive: bool = False

    @property
    def address(self) -> PortalId:
        """Where its PCT listens; grants carry it."""
        return unpacked(self.at[0] if isinstance(self.at, tuple) else self.at)

    @property
    def peer(self) -> PortalId:
        """The PCT as a sender of messages."""
        return unpacked(self.peer_at)

    @property
    def peer_at(self) -> int:
        """The same as one number."""
        return self.at[1] if isinstance(self.at, tuple) else self.at

    @property
    def memory(self) -> int:
        """Bytes."""
        return self.equipment.memory

    @property
    def gpus(self) -> tuple[str, ...]:
        """The kind of each."""
        return self.equipment.gpus

    @property
    def cores(self) -> tuple[CoreGroup, ...]:
        """That ranks can be bound to."""
        return self.equipment.cores

    @property
    def down_text(self) -> str:
        """Why it is down."""
        return self.notes.down_text

    @property
    def trouble(self) -> str:
        """Why its PCT finds it not fit for jobs; empty: it is."""
        return self.notes.trouble

    @property
    def rogues(self) -> str:
        """Processes there that its batch system does not end; empty: there are none."""
        return self.notes.rogues

    def is_over(self, job: tuple[int, int]) -> bool:
        """Whether a job of an earlier bebopd, in this attempt, has ended here."""
        return job in self.notes.over

    def note(self, **changes: str | frozenset[tuple[int, int]]) -> None:
        """Say something else of it: these fields of its notes."""
        notes = replace(self.notes, **changes)
        self.notes = NO_NOTES if notes == NO_NOTES else notes

    @property
    def access(self) -> Access:
        """Whose jobs may be given it."""
        if self.orders is NONE and self.portion is Portion.ANY:
            return OPEN
        return self.orders.access(self.portion)

    def closed_text(self, claim: Claim) -> str:
        """Why jobs of this claim are not given it: for whom it is kept; empty: they are."""
        if self.number in claim.without:
            return "excluded (--exclude)"
        if claim.nodes and self.number not in claim.nodes:
            return f"without {claim.constraint}" if claim.constraint else "not in its queue"
        if claim.may_have(self.access):
            return ""
        kept = self.orders.reservation
        if kept is not None and kept.uid != claim.uid and not kept.is_timed:
            return f"reserved for {kept.owner}"
        return f"for {self.access.portion.value} jobs only"

    @property
    def is_open(self) -> bool:
        """It is up, and nothing stands against giving it to jobs."""
        is_closed = self.orders is not NONE and self.orders.closed is not None
        return self.is_up and not is_closed and not self.notes.trouble

    def used(self) -> int:
        """Slots held by jobs."""
        held = sum(self.held.values())
        return held - lent(self.loans, self.held) if self.loans else held

    def free(self) -> int:
        """Slots that can be given now."""
        if not self.is_open:
            return 0
        if not self.held:
            return self.slots
        if self.is_exclusive and self.used():
            return 0
        # The difference is negative when a PCT came back with fewer slots than are held.
        return max(0, self.slots - self.used())

    @property
    def share(self) -> Share:
        """Memory, GPUs and cores that it has in all."""
        has = self.equipment
        return Share(has.memory, len(has.gpus), tuple([group.cores for group in has.cores]))

    def left(self) -> Share:
        """Memory, GPUs and cores that can be given now."""
        return self.share.less(self.given.values())

    def happened(self, kind: NodeEventKind, text: str = "") -> RecordNodeEvent:
        """A line of its history."""
        return RecordNodeEvent(self.number, self.name, kind, clipped(text))

    def __str__(self) -> str:
        return f"node {self.number} ({self.name})"


def new_node(number: int, announce: Announce, peer: PortalId, now: float, orders: Orders) -> Node:
    """A node that announces itself for the first time."""
    node = Node(
        number=number,
        name=announce.name,
        slots=announce.slots,
        at=places(announce, peer),
        incarnation=announce.incarnation,
        heard_at=now,
        orders=orders,
        equipment=equipment(announce),
    )
    if announce.trouble or announce.rogues:
        node.note(trouble=announce.trouble, rogues=announce.rogues)
    return node


@lru_cache(maxsize=4096)
def _same(has: Equipment) -> Equipment:
    return has


def equipment(announce: Announce) -> Equipment:
    """What a PCT announces beside slots: one object for all that are alike."""
    return _same(Equipment(announce.memory, announce.gpus, announce.cores))


def packed(at: tuple[int, int]) -> int:
    """An address as one number: a pair takes three times as much memory."""
    return at[0] << 32 | at[1]


def unpacked(at: int) -> PortalId:
    """The address that this number is."""
    return PortalId(at >> 32, at & 0xFFFFFFFF)


def places(announce: Announce, peer: PortalId) -> int | tuple[int, int]:
    """Where a PCT listens and sends from, as in :attr:`Node.at`."""
    at, peer_at = announce.nid << 32 | announce.pid, packed(peer)
    return at if at == peer_at else (at, peer_at)


def says_the_same(node: Node, announce: Announce, peer: PortalId) -> bool:
    """A node that is up, and is not to restart, announces what it has before, features aside."""
    has, notes = node.equipment, node.notes
    return (
        node.is_up
        and node.orders.restart is None
        and node.incarnation == announce.incarnation
        and node.at == places(announce, peer)
        and node.name == announce.name
        and node.slots == announce.slots
        and has.memory == announce.memory
        and has.gpus == announce.gpus
        and has.cores == announce.cores
        and notes.trouble == announce.trouble
        and notes.rogues == announce.rogues
    )


def trouble_news(node: Node, before: str) -> list[Action]:
    """What its trouble is for the log and its history, if that is another one than before."""
    if node.trouble == before:
        return []
    if not node.trouble:
        return [Log(f"{node} is well again"), node.happened(NodeEventKind.WELL)]
    said = Log(f"{node} is in trouble: {shown(node.trouble)}")
    return [said, node.happened(NodeEventKind.TROUBLE, node.trouble)]


class Arrival(Enum):
    """What an announcement means."""

    FIRST = "first"  # a node that was not in the table
    STILL_HERE = "still here"
    BACK = "back"  # the same PCT; it was down
    RESTARTED = "restarted"  # another PCT: what ran under the earlier one is gone


def arrival_news(node: Node, arrival: Arrival) -> list[Action]:
    """What an announcement is for the log and the node's history."""
    match arrival:
        case Arrival.FIRST:
            said = f"{node} is here, slots: {node.slots}, at {node.address}"
            kept = RecordNode(node.number, node.name)
            return [Log(said), kept, node.happened(NodeEventKind.UP)]
        case Arrival.BACK:
            return [Log(f"{node} is back"), node.happened(NodeEventKind.UP, "is back")]
        case Arrival.RESTARTED:
            said = f"{node} has restarted, at {node.address}"
            kept = RecordNode(node.number, node.name)
            return [Log(said), kept, node.happened(NodeEventKind.RESTARTED)]
    return []
