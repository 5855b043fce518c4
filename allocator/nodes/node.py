"""One node of a partition, as bebopd knows it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from msgspec import Struct

from allocator.nodes.access import OPEN, Access, Claim
from allocator.nodes.orders import NONE, Orders, RecordNodeEvent
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


class Node(Struct, gc=False):  # of no cycle; there may be very many
    """One node.

    Attributes:
        address: where its PCT listens; grants carry it.
        peer: the PCT as a sender of messages.
        heard_at: seconds, monotonic, of its last message.
        held: slots by job. Nodes share it: it is replaced, not changed.
        over: jobs of earlier bebopds that have ended here, with their attempts; a late
            announcement may still name one, and is not believed.
        gpus: the kind of each.
        cores: that ranks can be bound to.
        portion: which jobs it is for, by the nodes file.
        is_exclusive: it is given to one job at a time, as a whole.
        trouble: why its PCT finds it not fit for jobs; empty: it is.
        given: memory, GPUs and cores by job; of jobs that have asked for none there is nothing.
        rogues: processes there that its batch system does not end; empty: there are none.
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
    held: Mapping[int, int] = NOTHING
    over: frozenset[tuple[int, int]] = frozenset()
    orders: Orders = NONE
    memory: int = 0
    gpus: tuple[str, ...] = ()
    cores: tuple[CoreGroup, ...] = ()
    given: Mapping[int, Share] = NOT_COUNTED
    trouble: str = ""
    rogues: str = ""
    portion: Portion = Portion.ANY
    is_exclusive: bool = False

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
        return self.is_up and not is_closed and not self.trouble

    def used(self) -> int:
        """Slots held by jobs."""
        return sum(self.held.values())

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
        return Share(self.memory, len(self.gpus), tuple([group.cores for group in self.cores]))

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
    address, peer = addresses(announce, peer)
    return Node(
        number=number,
        name=announce.name,
        slots=announce.slots,
        address=address,
        peer=peer,
        incarnation=announce.incarnation,
        heard_at=now,
        orders=orders,
        memory=same(announce.memory),
        gpus=announce.gpus,
        cores=announce.cores,
        trouble=announce.trouble,
        rogues=announce.rogues,
    )


@lru_cache(maxsize=4096)
def same(number: int) -> int:
    """One object for a number that many nodes have."""
    return number


def addresses(announce: Announce, peer: PortalId) -> tuple[PortalId, PortalId]:
    """Where a PCT listens, and the peer; one object where they are the same, as for most."""
    address = PortalId(announce.nid, same(announce.pid))
    return address, (address if address == peer else peer)


def trouble_news(node: Node, before: str) -> list[Action]:
    """What its trouble is for the log and its history, if that is another one than before."""
    if node.trouble == before:
        return []
    if not node.trouble:
        return [Log(f"{node} is well again"), node.happened(NodeEventKind.WELL)]
    said = Log(f"{node} is in trouble: {shown(node.trouble)}")
    return [said, node.happened(NodeEventKind.TROUBLE, node.trouble)]
